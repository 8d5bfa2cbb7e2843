"""CPU fallback: what Gaudi would not run natively runs on the host, is right, counted, logged, and can be forbidden."""

import pytest
import torch

import openhpu
from openhpu import events

from .support import agree


@pytest.fixture(autouse=True)
def from_zero():
    openhpu.reset_counters()


def test_doubles_are_native_where_floats_are_and_exact():
    x = torch.tensor([1.0, 1e-17], dtype=torch.float64)
    assert (x.to("hpu") + 1).tolist() == (x + 1).tolist()
    y = torch.tensor([2**53 + 1, 7])
    assert (y.to("hpu") * 3).tolist() == (y * 3).tolist()
    assert events.fallback_ops() == {}


def test_an_operator_without_a_row_is_a_fallback_and_is_counted():
    x = torch.ones(2)
    assert torch.equal(torch.digamma(x.to("hpu")).cpu(), torch.digamma(x))
    assert openhpu.counters()["ops_fallback"] == 1
    assert events.fallback_ops() == {"aten::digamma": 1}


def test_all_forms_of_an_operator_are_native_where_one_is():
    x = torch.ones(3, device="hpu", requires_grad=True)
    torch.nn.functional.silu(x).sum().backward()  # the table has silu_backward.grad_input
    torch.lgamma(x.detach())  # and lgamma.out
    images = torch.ones(1, 1, 2, 2, device="hpu")
    torch.nn.functional.interpolate(images, scale_factor=2, mode="nearest-exact")
    torch.complex(x.detach(), x.detach())
    assert events.fallback_ops() == {}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linalg.svdvals(x),
        lambda x: torch.linalg.qr(x).R.abs(),
        lambda x: torch.fft.fft(x).abs(),
        lambda x: torch.linalg.eigvalsh(x + x.t()),
        lambda x: torch.nn.functional.grid_sample(
            x[None, None], torch.zeros(1, 2, 2, 2, device=x.device), align_corners=False
        ),
        lambda x: torch.special.zeta(x.abs() + 2, x.abs() + 1),
        lambda x: torch.cdist(x, x),
        lambda x: torch.unique(x, return_counts=True),
    ],
)
def test_operators_of_all_kinds_are_right(function):
    torch.manual_seed(0)
    agree(function, torch.randn(5, 5), exact=False)


def test_a_fallback_sees_what_was_queued_before_it():
    def program(x):
        x = x.clone()
        for _ in range(50):
            x.add_(1)
        return x.double() + 1

    agree(program, torch.zeros(5))
    agree(program, torch.zeros(5))


def test_what_is_queued_after_a_fallback_sees_its_result():
    def program(x):
        y = torch.linalg.svdvals(x)
        return y * 2 + 1

    agree(program, torch.eye(4), exact=False)


def test_a_fallback_in_backward():
    def program(x):
        return torch.autograd.grad(torch.linalg.svdvals(x).sum(), x)

    agree(program, torch.diag(torch.tensor([3.0, 2.0, 1.0])).requires_grad_(), exact=False)


def test_a_fallback_writes_in_place_and_to_out():
    def program(x):
        y = x.to(torch.complex64)
        y.add_(1)
        return torch.mul(y, 2, out=torch.empty(0, dtype=torch.complex64, device=x.device))

    agree(program, torch.arange(3.0))


def test_native_operators_do_not_fall_back():
    x = torch.ones(4, 4, device="hpu")
    (x @ x + x).relu().softmax(-1).sum()
    assert openhpu.counters()["ops_fallback"] == 0


def test_forbidden_fallbacks_are_errors_that_name_operator_and_remedy(script):
    out = script(
        """
        import torch
        x = torch.ones(3, 3, device="hpu")
        for _ in range(2):
            try:
                torch.linalg.svdvals(x)
            except RuntimeError as error:
                text = str(error)
                print("CPU fallback of" in text and "svd" in text, "is forbidden by PT_HPU_PLACE_ON_CPU" in text)
        print((x @ x).sum().item())
        """,
        PT_HPU_PLACE_ON_CPU="none",
    ).out
    assert out.split() == ["True"] * 4 + ["27.0"]


def test_a_list_names_what_may_fall_back(script):
    out = script(
        """
        import torch
        x = torch.tensor([1.0, 1.0, 1.0], dtype=torch.complex64).to("hpu")
        print((x + 1).sum().item().real)
        try:
            x * 2
        except RuntimeError as error:
            print("aten::mul" in str(error))
        """,
        PT_HPU_PLACE_ON_CPU="add,sum",
    ).out
    assert out.split() == ["6.0", "True"]


def test_training_runs_with_fallbacks_forbidden(script):
    code = """
        import torch
        from torch import nn
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
        model.to("hpu")
        x, target = torch.ones(2, 1, 8, 8, device="hpu"), torch.tensor([0, 1], device="hpu")
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            loss = nn.functional.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(loss.isfinite().item())
    """
    assert script(code, PT_HPU_PLACE_ON_CPU="none").out == "True"


def test_generations_differ(script):
    code = """
        import torch, openhpu
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
    with counted() as difference:
        draw()
    assert events.fallback_ops() == {f"aten::{name}": 1}
    assert difference["ops_fallback"] == 1
    with counted() as difference:
        draw()
    assert difference["ops_waited"] == 0


def test_probabilities_of_another_dtype_are_no_fallback():
    x = torch.empty(5, device="hpu")
    x.bernoulli_(torch.tensor(0.5, dtype=torch.float64))
    x.bernoulli_(torch.full((5,), 0.5).double().to("hpu"))
    assert events.fallback_ops() == {}
