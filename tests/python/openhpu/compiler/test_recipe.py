"""Compiled recipes do what the script did. Many cases in few compilations: each takes seconds."""

import re

import pytest
import torch
from torch._inductor.exc import CppCompileError

from openhpu.compiler import CannotCompile
from openhpu.compiler.recipe import compile_recipe
from tests.python.openhpu.compiler.recorder import Recorder


def record(script, tensors, **options):
    """The description of `script(*tensors)` and, by slot, storages with the contents from before."""
    before = [tensor.detach().clone(memory_format=torch.preserve_format) for tensor in tensors]
    with Recorder() as recorder:
        results = script(*tensors)
    description = recorder.description(live=results, **options)
    for old, tensor in zip(before, tensors, strict=True):
        tensor.detach().copy_(old)
    return description, recorder.storages


def returned_twice(a):
    x = a.clone()
    y = a + 0
    z = torch.zeros(3)
    w = torch.zeros(3)
    return [x, y, z, w, a.relu(), a.relu()]


def dtypes(h, i, m, z, none, scalar):
    halves = (h * 1.5 + h.float().to(torch.bfloat16)).sum(0)
    scalar.mul_(3)
    masked = torch.where(m, i, i // 3)
    return [
        halves,
        masked,
        m & ~m,
        z * (1 + 2j),
        torch.view_as_real(z) * 2,
        none + 1,
        torch.cat([none, h.float()]),
        scalar + 1,
        i.view(torch.float64) * 0,
        z.conj() * z,
        scalar.to(torch.complex64),
        torch.empty((), dtype=z.dtype).copy_(z[0]),
        z[:1].clone().view(()),
    ]


def writes_in_many_ways(x, y):
    fresh = torch.empty(4, 6)
    fresh[:, ::2] = x[:, ::2]
    fresh[:, 1::2].fill_(2.5)
    torch.add(x[:2], y[:2], out=fresh[2:])
    x.t()[1:3].zero_()
    y.transpose(0, 1).unsqueeze(0).add_(fresh.t())
    y.diagonal().mul_(2)
    y[1].exp_()
    return [fresh]


def test_batches(compiled):
    torch.manual_seed(0)
    more = (torch.randn(3, dtype=torch.complex64), torch.randn(0, 5), torch.tensor(2.0))
    cases = {
        "returned twice": (returned_twice, [torch.randn(6)]),
        "dtypes": (
            dtypes,
            [torch.randn(4, 5, dtype=torch.bfloat16), torch.randint(-9, 9, (7,)), torch.rand(7) > 0.5, *more],
        ),
        "writes": (writes_in_many_ways, [torch.randn(4, 6), torch.randn(4, 6)]),
    }
    recorded = [record(*case) for case in cases.values()]
    for name, result, (_, storages) in zip(cases, compiled(*(d for d, _ in recorded)), recorded, strict=True):
        assert not isinstance(result, CannotCompile), f"{name}: {result}"
        result.check(storages, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("printed", "kind", "told"),
    [
        ("header.h:1: fatal error: cannot write PCH file: No space left on device", OSError, "No space left on device"),
        ("In file included from a.cpp:\na.cpp:3:1: error: unknown type", CannotCompile, "a.cpp:3:1: error: unknown"),
        ("Segmentation fault", CannotCompile, "C++ compile error / Segmentation fault"),
    ],
)
def test_what_the_cpp_compiler_says_is_the_reason(tmp_path, monkeypatch, printed, kind, told):
    """Not its command, which is longer than a terminal's lines."""

    def fail(*_):
        raise CppCompileError(["g++", "-O1", *["-I/long/path"] * 50], printed)

    description, _ = record(lambda x: [x + 1], [torch.zeros(2)])
    monkeypatch.setattr("openhpu.compiler.inductor.inductor.build", fail)
    with pytest.raises(kind, match=re.escape(told)) as caught:
        compile_recipe(description, tmp_path)
    assert "long/path" not in str(caught.value)
    assert not list(tmp_path.iterdir())
