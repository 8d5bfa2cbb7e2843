"""Autograd on the device: threads, errors, hooks, double backward, checkpointing."""

import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .support import agree, in_threads


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


def test_hooks_see_and_change_gradients():
    model, seen = nn.Linear(3, 2).to("hpu"), []
    model.register_forward_hook(lambda *_: seen.append("forward"))
    model.register_full_backward_hook(lambda *_: seen.append("backward"))
    model.weight.register_post_accumulate_grad_hook(lambda p: seen.append(tuple(p.grad.shape)))
    x = torch.ones(1, 3, device="hpu", requires_grad=True)
    x.register_hook(lambda grad: grad * 10)
    model(x).sum().backward()
    assert seen[0] == "forward"
    assert set(seen) == {"forward", "backward", (2, 3)}
    torch.testing.assert_close(x.grad[0], 10 * model.weight.sum(0))


def test_an_error_in_backward_reaches_the_script_and_the_next_one_works():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, grad):
            raise ZeroDivisionError("in backward")

    def fail(grad):
        raise KeyError("in a hook")

    x = torch.ones(3, device="hpu", requires_grad=True)
    with pytest.raises(ZeroDivisionError, match="in backward"):
        Fails.apply(x).sum().backward()
    hook = x.register_hook(fail)
    with pytest.raises(KeyError, match="in a hook"):
        (x * 2).sum().backward()
    hook.remove()
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # what torch.func.jvp loads
def test_functional_transforms():
    def program(x):
        gradient = torch.func.grad(lambda x: (x**2).sum())(x)
        rows = torch.func.vmap(torch.dot)(x.view(2, 2), x.view(2, 2))
        jacobian = torch.func.jacrev(lambda x: x**2)(x)
        _, tangent = torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))
        each = torch.func.vmap(torch.func.grad(lambda row: (row**3).sum()))(x.view(2, 2))
        return gradient, rows, jacobian, tangent, each

    agree(program, torch.arange(4.0), exact=False)


def test_saved_tensors_may_wait_on_the_host(counted):
    x = torch.ones(300, device="hpu", requires_grad=True)
    with counted() as moved, torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).sin()
        torch.hpu.synchronize()
    assert moved["copies_d2h"] >= 2
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * torch.ones(300).cos())


def test_anomaly_mode_names_the_operator_of_the_forward():
    x = torch.tensor([-1.0], device="hpu", requires_grad=True)
    with (
        pytest.warns(UserWarning, match="Anomaly Detection has been enabled"),
        torch.autograd.detect_anomaly(),
        pytest.warns(UserWarning, match="Error detected in SqrtBackward0"),
        pytest.raises(RuntimeError, match="nan"),
    ):
        x.sqrt().sum().backward()
