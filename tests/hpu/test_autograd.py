"""Autograd on the device: threads, errors, hooks, double backward, checkpointing."""

import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .support import in_threads


def thread_of_a_backward():
    """The thread on which a hook ran; the hook reads a value of the device."""
    seen = []
    y = torch.ones(3, device="hpu", requires_grad=True) * 2
    y.register_hook(lambda grad: seen.append((threading.get_ident(), grad.sum().item())))
    y.sum().backward()
    ((thread, value),) = seen
    assert value == 3.0
    return thread


def test_backward_runs_on_the_thread_that_calls_it_as_on_the_cpu():
    assert thread_of_a_backward() == threading.get_ident()
    assert in_threads(lambda: thread_of_a_backward() == threading.get_ident()) == [True]


def test_a_script_may_have_threads_for_backward():
    with torch.autograd.set_multithreading_enabled(True):
        assert thread_of_a_backward() != threading.get_ident()
    assert thread_of_a_backward() == threading.get_ident()


def test_inference_mode_before_changes_nothing():
    def first_in_inference_mode():
        with torch.inference_mode():
            torch.ones(3, device="hpu").sum().item()
        return thread_of_a_backward() == threading.get_ident()

    assert in_threads(first_in_inference_mode) == [True]


def test_gradcheck_in_double_precision():
    x = torch.randn(4, 3, dtype=torch.float64).to("hpu").requires_grad_()
    w = torch.randn(2, 3, dtype=torch.float64).to("hpu").requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: torch.tanh(nn.functional.linear(x, w)), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: torch.tanh(nn.functional.linear(x, w)), (x, w))
    sizes = (1, 2, 5, 5), (4, 2, 3, 3), (4,)
    convolved = [torch.randn(s, dtype=torch.float64).to("hpu").requires_grad_() for s in sizes]
    assert torch.autograd.gradgradcheck(nn.functional.conv2d, convolved)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_recomputes_with_the_same_random_numbers(reentrant):
    def block(x):
        return nn.functional.dropout(x * 2, 0.5)

    def run(through):
        torch.manual_seed(5)
        x = torch.ones(50, device="hpu", requires_grad=True)
        through(x).sum().backward()
        return x.grad

    expected = run(block)
    assert torch.equal(run(lambda x: checkpoint(block, x, use_reentrant=reentrant)), expected)
    assert 0 < (expected == 0).sum().item() < 50


def test_gradients_keep_the_layout_of_backward_on_request(script):
    code = """
        p = torch.ones(2, 3, 4, device="hpu").permute(2, 0, 1).requires_grad_()
        torch.autograd.backward(p * 2, torch.ones(4, 2, 3, device="hpu"))
        print(p.grad.stride() == p.stride())
    """
    asked = {"PT_HPU_EAGER_ENABLE_GRADIENT_VIEW_LAYOUT_OPT": "1"}
    assert script(code, PT_HPU_LAZY_MODE="0").out == "True"
    assert script(code, PT_HPU_LAZY_MODE="0", **asked).out == "False"
    assert script(code, PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off", **asked).out == "True"  # eager mode's
