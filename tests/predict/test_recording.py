"""Operators that come whole in inference mode."""

import pytest
import torch

import openhpu_predict
from openhpu_predict.operators import Kind


def nodes(function, guard):
    """The nodes of a call of `function` on fake tensors, within a guard."""

    def step():
        with guard():
            return function()

    return openhpu_predict.record(step, steps=1).nodes


@pytest.fixture
def operands():
    with openhpu_predict.fake():
        return torch.nn.Linear(256, 128), torch.empty(8, 256), torch.empty(4, 8, 16), torch.empty(4, 16, 32)


FUNCTIONS = {
    "linear": lambda linear, x, a, b: linear(x),
    "matmul": lambda linear, x, a, b: x @ x.t(),
    "batched matmul": lambda linear, x, a, b: a @ b,
    "einsum": lambda linear, x, a, b: torch.einsum("bij,bjk->bik", a, b),
    "Gaudi's product": lambda linear, x, a, b: torch.ops.hpu.fp8_gemm_v2(x, False, x, True, None, torch.bfloat16),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_inference_mode_has_the_operators_of_no_grad(operands, name):
    found = [
        [(one.op, one.kind, one.products) for one in nodes(lambda: FUNCTIONS[name](*operands), guard)]
        for guard in (torch.no_grad, torch.inference_mode)
    ]
    assert found[0] == found[1]
    assert Kind.PRODUCT in [kind for _, kind, _ in found[1]]


@pytest.mark.parametrize(
    ("left", "right", "product"),
    [
        ((6, 8, 4, 1, 32), (6, 8, 1, 32, 128), (48, 4, 128, 32)),  # four heads share a key: it is read once
        ((6, 1, 5, 32), (6, 3, 32, 7), (6, 5, 21, 32)),
        ((2, 5, 32), (4, 2, 32, 7), (2, 5, 28, 32)),
    ],
)
def test_product_whose_operand_is_shared_copies_nothing(left, right, product):
    with openhpu_predict.fake():
        a, b = torch.empty(left), torch.empty(right)
    (one,) = nodes(lambda: a @ b, torch.inference_mode)
    assert (one.op, one.kind, one.products) == ("matmul", Kind.PRODUCT, [product])
    assert sum(one.reads.values()) == a.nbytes + b.nbytes
