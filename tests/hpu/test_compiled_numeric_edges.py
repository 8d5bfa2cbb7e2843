"""A recipe gives the CPU device's numbers at the edges of a dtype: zeros by their sign, tiny and infinite ones."""

import math

import pytest
import torch
from torch.nn import functional as F

from .support import counted

INF = math.inf
NUMBERS = [INF, -INF, math.nan, -0.0, 0.0, 1e20, -1e20, 1.7, -1.7, 3.25, -0.375, 1e-8, -1e-8, 6.5, 1e-3, 0.9, -0.9]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)

FUNCTIONS = {
    **{
        name: getattr(torch, name) for name in ("acosh", "asinh", "atanh", "expm1", "relu", "sign", "sgn", "abs", "neg")
    },
    **{name: getattr(F, name) for name in ("gelu", "elu", "selu", "celu", "relu6", "silu", "hardtanh", "leaky_relu")},
    **{name: getattr(F, name) for name in ("hardshrink", "hardswish", "hardsigmoid", "softsign", "mish")},
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "elu of another slope": lambda x: F.elu(x, 0.7),
    "celu of another slope": lambda x: F.celu(x, 1.3),
    "hardtanh from -0": lambda x: F.hardtanh(x, -0.0, 1.0),
    "clamp": lambda x: x.clamp(0, 1),
    "clamp with bounds that cross": lambda x: x.clamp(1, -1),
    "clamp_min": lambda x: x.clamp_min(0),
    "clamp_max": lambda x: x.clamp_max(0),
    "threshold": lambda x: F.threshold(x, -1, 5.0),
    "fmax": lambda x: torch.fmax(x, -x),
    "fmin": lambda x: torch.fmin(x, -x),
    "a sum with a number": lambda x: x + 0.1,
    "a difference with a number": lambda x: x - 0.1,
    "a number less it": lambda x: 0.1 - x,
    "a sum with a factor": lambda x: torch.add(x, x.flip(0), alpha=0.3),
    "a difference with a factor": lambda x: torch.sub(x, x.flip(0), alpha=0.3),
    "a product with a number": lambda x: x * 0.3,
    "a quotient with a number": lambda x: x / 0.3,
    "zero added": lambda x: x + 0.0,
    "zero less it": lambda x: 0.0 - x,
    "times zero": lambda x: x * 0.0,
    "squared": lambda x: x**2,
    "remainder": lambda x: x % 0.7,
    "fmod": lambda x: torch.fmod(x, 0.7),
}


def same(ours, right):
    """Bit by bit but for the last bits of float32; any two that are not a number."""
    signs = torch.signbit(ours) == torch.signbit(right)
    near = ours == right
    if right.dtype is torch.float32:
        near |= (ours - right).abs() <= 4e-6 * right.abs()
    return (near & signs) | (ours.isnan() & right.isnan())


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_recipe_has_the_cpus_numbers(dtype):
    few = torch.tensor(NUMBERS, dtype=torch.float64)
    few = (few.clamp(-6e4, 6e4) if dtype is torch.float16 else few).to(dtype)
    x = few.repeat(64)
    on_hpu = x.to("hpu")

    def work():
        found = [function(on_hpu) for function in FUNCTIONS.values()]
        torch.hpu.synchronize()
        return found

    work()  # what the operators give becomes known
    with counted(ops_node_by_node=0, ops_fallback=0):
        found = work()
    wrong = {}
    for name, ours in zip(FUNCTIONS, found, strict=True):
        right = FUNCTIONS[name](x)
        bad = ~same(ours.cpu(), right)
        if bad.any():
            i = int(bad.nonzero()[0])
            wrong[name] = f"{int(bad.sum())}, {x[i].item()}: {ours[i].item()}, not {right[i].item()}"
    assert not wrong, wrong


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_changing_number(dtype):
    x = torch.randn(1000).to(dtype)
    on_hpu = x.to("hpu")

    def work(x, number):
        return x * number, x / number, x + number, x - number

    for k in range(5):
        number = 0.1 + 0.37 * k
        found = [y.cpu() for y in work(on_hpu, number)]
        right = work(x, number)
        assert [torch.equal(a, b) for a, b in zip(found, right, strict=True)] == [True] * 4, number
