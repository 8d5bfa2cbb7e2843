"""CPU fallback: what Gaudi would not run natively runs on the host, is right, counted, logged, and can be forbidden."""

import pytest
import torch
import torch.nn.functional as F

import openhpu
from openhpu import events

from .support import agree


@pytest.fixture(autouse=True)
def from_zero():
    openhpu.reset_counters()


NATIVE = {
    # Doubles are where floats are, and all forms of an operator where one is in the table.
    "doubles": lambda x: (x.double() * 1e-9 + 1, torch.tensor([2**53 + 1, 7], device=x.device) * 3),
    "silu_backward.grad_input": lambda x: torch.ops.aten.silu_backward(x, x),
    "lgamma.out": torch.lgamma,
    "nearest-exact": lambda x: F.interpolate(x.view(1, 1, 2, 2), scale_factor=2, mode="nearest-exact"),
    "complex.out": lambda x: torch.complex(x, x),
    "probability of another dtype": lambda x: x.clone().bernoulli_(torch.tensor(1.0, dtype=torch.float64)),
    "probabilities of another dtype": lambda x: x.clone().bernoulli_(torch.ones_like(x).double()),
}


@pytest.mark.parametrize("name", NATIVE)
def test_what_is_native_is_no_fallback(name):
    agree(NATIVE[name], torch.ones(4), exact=False)
    assert events.fallback_ops() == {}


def test_an_operator_without_a_row_is_a_fallback_and_is_counted():
    x = torch.ones(2)
    assert torch.equal(torch.digamma(x.to("hpu")).cpu(), torch.digamma(x))
    assert openhpu.counters()["ops_fallback"] == 1
    assert events.fallback_ops() == {"aten::digamma": 1}


def test_a_fallback_writes_in_place_and_to_out():
    def program(x):
        y = x.to(torch.complex64)
        y.add_(1)
        return torch.mul(y, 2, out=torch.empty(0, dtype=torch.complex64, device=x.device))

    agree(program, torch.arange(3.0))


def test_forbidden_fallbacks_are_errors_that_name_operator_and_remedy(script):
    code = """
        x = torch.ones(3, 3, device="hpu")
        for _ in range(2):
            try:
                torch.linalg.svdvals(x)
            except RuntimeError as error:
                text = str(error)
                print("CPU fallback of" in text and "svd" in text, "is forbidden by PT_HPU_PLACE_ON_CPU" in text)
        print((x @ x).sum().item())
        """
    assert script(code, PT_HPU_PLACE_ON_CPU="none").out.split() == ["True"] * 4 + ["27.0"]


def test_a_list_names_what_may_fall_back(script):
    code = """
        x = torch.tensor([1.0, 1.0, 1.0], dtype=torch.complex64).to("hpu")
        print((x - 1).sum().item().real)
        try:
            x / 2
        except RuntimeError as error:
            print("aten::div" in str(error))
        """
    assert script(code, PT_HPU_PLACE_ON_CPU="sub,sum").out.split() == ["0.0", "True"]


def test_generations_differ(script):
    code = """
        x = torch.ones(2, 2, dtype=torch.float16, device="hpu")
        x @ x
        print(openhpu.counters()["ops_fallback"] > 0, torch.hpu.get_device_name())
    """
    assert script(code, OPENHPU_GENERATION="gaudi").out == "True GAUDI"
    assert script(code, OPENHPU_GENERATION="gaudi3").out == "False GAUDI3"


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda: torch.empty(5, device="hpu").cauchy_(), "cauchy_"),
        (lambda: torch.empty(5, device="hpu", dtype=torch.uint16).random_(3), "random_.from"),
        (lambda: torch.binomial(torch.ones(5, device="hpu"), torch.tensor(0.5)), "binomial"),
        (lambda: torch._standard_gamma(torch.ones(5, device="hpu")), "_standard_gamma"),
    ],
)
def test_random_operators_fall_back_under_the_names_that_users_know(draw, name, counted):
    torch.ones(5, device="hpu")
    openhpu.reset_counters()
    draw()
    assert events.fallback_ops() == {f"aten::{name}": 1}
    with counted(ops_waited=0):
        draw()


COMPLEX = {
    "number": lambda x: x * 2.0,
    "complex number": lambda x: x * (1 + 2j),
    "in place": lambda x: x.mul_(2.0),
    "scalar": lambda x: torch.ops.aten.mul.Scalar(x, 3j),
    "tensor": lambda x: x * x.conj(),
    "mixed": lambda x: x * x.real,
    "sum": lambda x: x + x,
    "sum with a number": lambda x: x + 1j,
    "sum with a factor": lambda x: torch.add(x, x, alpha=2, out=torch.empty_like(x)),
    "out": lambda x: torch.mul(x, x, out=torch.empty_like(x)),
    "0-dim": lambda x: x * torch.tensor(2.0),
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("program", COMPLEX.values(), ids=COMPLEX)
def test_products_and_sums_of_complex_numbers_are_native(program, dtype, no_fallback):
    agree(program, torch.randn(3, 4, dtype=dtype), exact=False)


def test_a_sum_of_complex_numbers_in_place_is_a_fallback(counted):
    x = torch.ones(3, dtype=torch.complex64, device="hpu")
    with counted(ops_fallback=1):
        x += 1j
    assert x.tolist() == [1 + 1j] * 3
