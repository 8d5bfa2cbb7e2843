"""The four kernels of the example: values beside PyTorch's, for sizes with rests and parts of the index space."""

import struct

import pytest
import torch

from commands import ROOT
from tests.tpc.libraries import library

EXAMPLE = ROOT / "examples" / "tpc"


@pytest.fixture(scope="module")
def kernels():
    sources = {path.name: path.read_text() for path in sorted((EXAMPLE / "kernels").glob("*.c"))}
    return library(sources | {"glue.cpp": (EXAMPLE / "glue.cpp").read_text()})


def values(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


SIZES = [(1, 1), (3, 64), (5, 100), (17, 129)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("pieces", [1, 7])
def test_elementwise(kernels, sizes, pieces):
    x, grad = values(*sizes), values(*sizes, seed=1)
    y, dx = torch.full_like(x, 9), torch.full_like(x, 9)
    kernels.run("silu_fwd_f32", [x], [y], pieces=pieces)
    kernels.run("silu_bwd_f32", [grad, x], [dx], pieces=pieces)
    wanted = x.clone().requires_grad_()
    result = torch.nn.functional.silu(wanted)
    result.backward(grad)
    torch.testing.assert_close(y, result.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(dx, wanted.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 70, 64), (9, 33, 130)])
@pytest.mark.parametrize("pieces", [1, 5])
def test_product(kernels, sizes, pieces):
    m, k, n = sizes
    a, b = values(m, k), values(k, n, seed=1)
    c = torch.full((m, n), 9.0)
    kernels.run("product_f32", [a, b], [c], pieces=pieces)
    torch.testing.assert_close(c, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("pieces", [1, 3])
def test_softmax(kernels, sizes, pieces):
    x = values(*sizes) * 5
    y = torch.full_like(x, 9)
    kernels.run("row_softmax_f32", [x], [y], pieces=pieces)
    torch.testing.assert_close(y, x.softmax(-1), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("pieces", [1, 4])
def test_rms_norm(kernels, sizes, pieces):
    x, weight, grad = values(*sizes), values(sizes[1], seed=1), values(*sizes, seed=2)
    y, inverse = torch.full_like(x, 9), torch.full((sizes[0], 1), 9.0)
    kernels.run("rmsnorm_fwd_f32", [x, weight], [y, inverse], struct.pack("f", 1e-5), pieces=pieces)
    dx, dweight = torch.full_like(x, 9), torch.zeros_like(weight)
    kernels.run("rmsnorm_bwd_f32", [grad, x, weight, inverse], [dx, dweight], pieces=pieces)
    x, weight = x.requires_grad_(), weight.requires_grad_()
    wanted = torch.nn.functional.rms_norm(x, (sizes[1],), weight, 1e-5)
    wanted.backward(grad)
    torch.testing.assert_close(y, wanted.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dx, x.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(dweight, weight.grad, rtol=1e-4, atol=1e-5)
