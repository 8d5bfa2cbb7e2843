"""Autograd on the device: threads, errors, hooks, double backward, checkpointing."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .support import MODELS, agree, loss_of, make


def gradients(name, device):
    model, _, x, target = make(name, device=device)
    loss_of(model, x, target).backward()
    return {key: parameter.grad.cpu() for key, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_cpu(name):
    torch.testing.assert_close(gradients(name, "hpu"), gradients(name, "cpu"), rtol=1e-4, atol=1e-5)


def thread_of_a_backward():
    """The thread on which a hook ran; the hook reads a value of the device."""
    seen = []
    x = torch.ones(3, device="hpu", requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: seen.append((threading.get_ident(), grad.sum().item())))
    y.sum().backward()
    ((thread, value),) = seen
    assert value == 3.0
    return thread


def test_backward_runs_on_the_thread_that_calls_it_as_on_the_cpu():
    assert thread_of_a_backward() == threading.get_ident()
    with ThreadPoolExecutor(1) as other:
        assert other.submit(thread_of_a_backward).result() == other.submit(threading.get_ident).result()


def test_a_script_may_have_threads_for_backward():
    with torch.autograd.set_multithreading_enabled(True):
        assert thread_of_a_backward() != threading.get_ident()
    assert thread_of_a_backward() == threading.get_ident()


def test_inference_mode_before_changes_nothing():
    def first_in_inference_mode():
        with torch.inference_mode():
            torch.ones(3, device="hpu").sum().item()
        return thread_of_a_backward()

    with ThreadPoolExecutor(1) as other:
        assert other.submit(first_in_inference_mode).result() == other.submit(threading.get_ident).result()


def test_a_hook_may_replace_the_gradient():
    x = torch.ones(3, device="hpu", requires_grad=True)
    x.register_hook(lambda grad: grad * 10)
    x.sum().backward()
    assert x.grad.tolist() == [10.0] * 3


def test_module_and_accumulation_hooks_run():
    model, calls = nn.Linear(3, 2).to("hpu"), []
    model.register_forward_hook(lambda *_: calls.append("forward"))
    model.register_full_backward_hook(lambda *_: calls.append("backward"))
    model.weight.register_post_accumulate_grad_hook(lambda p: calls.append(p.grad.shape))
    model(torch.ones(1, 3, device="hpu", requires_grad=True)).sum().backward()
    assert calls[0] == "forward"
    assert "backward" in calls
    assert torch.Size([2, 3]) in calls


def test_an_exception_in_a_hook_reaches_the_script():
    def fail(grad):
        raise ZeroDivisionError("in the hook")

    x = torch.ones(3, device="hpu", requires_grad=True)
    x.register_hook(fail)
    with pytest.raises(ZeroDivisionError, match="in the hook"):
        (x * 2).sum().backward()
    x = torch.ones(3, device="hpu", requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_an_exception_in_a_function_of_the_script_reaches_it():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, grad):
            raise KeyError("backward")

    x = torch.ones(3, device="hpu", requires_grad=True)
    with pytest.raises(KeyError):
        Fails.apply(x).sum().backward()


def test_a_function_of_the_script_computes_on_the_device():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(context, grad):
            (x,) = context.saved_tensors
            return grad * 3 * x**2

    x = torch.tensor([1.0, 2.0], device="hpu", requires_grad=True)
    Cube.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_a_second_backward_needs_retain_graph():
    x = torch.ones(3, device="hpu", requires_grad=True)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert x.grad.tolist() == [4.0] * 3
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_double_backward():
    def program(x):
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        (third,) = torch.autograd.grad(second.sum(), x)
        return first.detach(), second.detach(), third

    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    first, second, third = program(x.detach().to("hpu").requires_grad_())
    assert (first.tolist(), second.tolist(), third.tolist()) == ([3.0, 12.0, 27.0], [6.0, 12.0, 18.0], [6.0] * 3)


def test_gradcheck_in_double_precision():
    x = torch.randn(4, 3, dtype=torch.float64).to("hpu").requires_grad_()
    w = torch.randn(2, 3, dtype=torch.float64).to("hpu").requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: torch.tanh(nn.functional.linear(x, w)), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: torch.tanh(nn.functional.linear(x, w)), (x, w))


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
    actual = run(lambda x: checkpoint(block, x, use_reentrant=reentrant))
    assert torch.equal(actual, expected)
    assert 0 < (expected == 0).sum().item() < 50


def test_gradients_accumulate():
    x = torch.ones(3, device="hpu", requires_grad=True)
    for _ in range(3):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [6.0] * 3


def test_anomaly_mode_names_the_forward():
    x = torch.tensor([-1.0], device="hpu", requires_grad=True)
    with (
        pytest.warns(UserWarning, match="Anomaly Detection has been enabled"),
        torch.autograd.detect_anomaly(),
        pytest.warns(UserWarning, match="Error detected in SqrtBackward0"),
        pytest.raises(RuntimeError, match="nan"),
    ):
        x.sqrt().sum().backward()


def test_inference_mode_and_no_grad():
    x = torch.ones(3, device="hpu", requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        y = x * 2
    assert y.is_inference()
    assert y.tolist() == [2.0] * 3


def test_views_and_in_place_writes_take_part_in_backward():
    def program(x):
        y = x * 1
        y[1:].mul_(3)
        y.view(2, 2)[0].add_(x[:2])
        return torch.autograd.grad(y.sum(), x)

    agree(program, torch.arange(4.0).requires_grad_())


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # what torch.func.jvp loads
def test_functional_transforms():
    def program(x):
        grad = torch.func.grad(lambda x: (x**2).sum())(x)
        batch = torch.func.vmap(torch.dot)(x.view(2, 2), x.view(2, 2))
        jacobian = torch.func.jacrev(lambda x: x**2)(x)
        _, tangent = torch.func.jvp(lambda x: x.sin(), (x,), (torch.ones_like(x),))
        return grad, batch, jacobian, tangent

    agree(program, torch.arange(4.0), exact=False)


def test_backward_from_several_threads():
    x = torch.ones(64, device="hpu", requires_grad=True)
    errors = []

    def work():
        try:
            for _ in range(20):
                (grad,) = torch.autograd.grad((x * 2).sum(), x)
                assert grad.sum().item() == 128
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_saved_tensors_may_be_kept_on_the_host():
    x = torch.ones(3, device="hpu", requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).sin()
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * torch.ones(3).cos())


def test_a_graph_across_both_devices():
    x = torch.ones(3, requires_grad=True)
    y = (x.to("hpu") * 2).to("cpu") * 3
    y.sum().backward()
    assert x.grad.tolist() == [6.0] * 3
    assert x.grad.device.type == "cpu"


def test_gradients_keep_the_layout_of_backward_on_request(script):
    code = """
        import torch
        p = torch.ones(2, 3, 4, device="hpu").permute(2, 0, 1).requires_grad_()
        torch.autograd.backward(p * 2, torch.ones(4, 2, 3, device="hpu"))
        print(p.grad.stride() == p.stride())
    """
    asked = {"PT_HPU_EAGER_ENABLE_GRADIENT_VIEW_LAYOUT_OPT": "1"}
    assert script(code, PT_HPU_LAZY_MODE="0").out == "True"
    assert script(code, PT_HPU_LAZY_MODE="0", **asked).out == "False"
    assert script(code, PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off", **asked).out == "True"  # eager mode's
