"""Operators that Python defines by torch.library, in each mode. docs/custom-ops.md has the table."""

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.library import Library, custom_op, opcheck, register_fake, triton_op

from tests.hpu.support import capture, compiled

calls = []


def doubled(x: torch.Tensor, by: float) -> torch.Tensor:
    calls.append(x.device.type)
    return x * by


def like(x, by):
    return torch.empty_like(x)


def through_numpy(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.from_numpy(x.cpu().numpy() * np.float32(by)).to(x.device)


def into(x: torch.Tensor, y: torch.Tensor, by: float) -> None:
    y.copy_(x * by)


NAMESPACE = "openhpu_library_tests"
everywhere = custom_op(f"{NAMESPACE}::everywhere", doubled, mutates_args=())
of_hpu = custom_op(f"{NAMESPACE}::of_hpu", doubled, mutates_args=(), device_types="hpu")
added = custom_op(f"{NAMESPACE}::added", doubled, mutates_args=(), device_types="cpu")
added.register_kernel("hpu", doubled)
of_cpu = custom_op(f"{NAMESPACE}::of_cpu", doubled, mutates_args=(), device_types="cpu")
reads = custom_op(f"{NAMESPACE}::reads", through_numpy, mutates_args=())
for op in (everywhere, of_hpu, added, of_cpu, reads):
    op.register_fake(like)
everywhere.register_autograd(
    lambda ctx, grad: (grad * ctx.by, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1])
)
writes = custom_op(f"{NAMESPACE}::writes", into, mutates_args={"y"})
unknown = custom_op(f"{NAMESPACE}::unknown", doubled, mutates_args=())
library = Library(NAMESPACE, "FRAGMENT")
library.define("by_key(Tensor x, float by) -> Tensor")
library.impl("by_key", doubled, "HPU")
register_fake(f"{NAMESPACE}::by_key", like)


def write(x, by):
    writes(x, y := torch.empty_like(x), by)
    return y


KINDS = {
    "everywhere": everywhere,
    "of_hpu": of_hpu,
    "added": added,
    "of_cpu": of_cpu,
    "reads": reads,
    "writes": write,
    "by_key": getattr(torch.ops, NAMESPACE).by_key,
    "unknown": unknown,
}


def made():
    return torch.arange(6.0).reshape(2, 3).to("hpu")


def around(op):
    """The operator between two of PyTorch's."""
    return lambda x: op(x + 1, 2.0) - 1


def right(x, y):
    assert y.device.type == "hpu" and torch.equal(y.cpu(), (x.cpu() + 1) * 2 - 1)


def in_steps(op):
    x = made()
    for _ in range(4):
        y = around(op)(x)
        torch.hpu.synchronize()
    right(x, y)


def in_a_graph(op):
    x = made()
    op(x, 2.0)
    graph, y = capture(lambda: around(op)(x))
    for _ in range(2):
        x.add_(1)
        graph.replay()
        right(x, y)


def in_compiled_code(op):
    f = compiled(around(op), fullgraph=True)
    for k in range(3):
        x = made() + k
        right(x, f(x))


def as_a_fake_tensor(op):
    with FakeTensorMode():
        y = op(torch.empty(2, 3, device="hpu"), 2.0)
    assert y.device.type == "hpu" and y.shape == (2, 3)


class Around(nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x):
        return around(self.op)(x)


def exported(op):
    x = made()
    right(x, torch.export.export(Around(op), (x,)).module()(x))


MODES = (in_steps, in_a_graph, in_compiled_code, as_a_fake_tensor, exported)
NO_FAKE = "There was no fake impl registered for .*unknown"
REFUSED = {
    ("of_cpu", in_a_graph): "of_cpu is not supported during HPU Graph capturing.*CPU fallback",
    ("reads", in_a_graph): "to the host is not supported during HPU Graph capturing",
    ("unknown", in_compiled_code): NO_FAKE,
    ("unknown", as_a_fake_tensor): NO_FAKE,
    ("unknown", exported): NO_FAKE,
}


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_in_each_mode(kind, mode, usable):
    if (kind, mode) in REFUSED:
        with pytest.raises(Exception, match=f"(?s){REFUSED[kind, mode]}"):
            mode(KINDS[kind])
    else:
        mode(KINDS[kind])


def test_its_code_runs_on_the_host_and_only_that_for_the_cpu_gets_tensors_of_the_cpu(counted):
    x = made()
    for op, device, fallbacks in ((everywhere, "hpu", 0), (added, "hpu", 0), (of_cpu, "cpu", 1)):
        calls.clear()
        with counted(ops_fallback=fallbacks):
            op(x, 2.0)
        assert calls == [device]
    graph, _ = capture(lambda: everywhere(x, 2.0))
    calls.clear()
    graph.replay()
    assert not calls


def test_gradients_by_its_own_formula():
    x = made().requires_grad_()
    everywhere(x, 3.0).sum().backward()
    assert x.grad.tolist() == [[3.0] * 3] * 2
    f = compiled(lambda x: everywhere(x, 3.0).sum())
    f(x := made().requires_grad_()).backward()
    assert x.grad.tolist() == [[3.0] * 3] * 2


def test_pytorchs_own_check_of_an_operator():
    for op in (everywhere, of_hpu, KINDS["by_key"]):
        opcheck(op, (made(), 2.0))


def test_an_operator_in_triton_says_what_it_needs(usable):
    @triton_op(f"{NAMESPACE}::in_triton", mutates_args=())
    def in_triton(x: torch.Tensor, by: float) -> torch.Tensor:
        return x.clone()  # where Triton is: wrap_triton(kernel)[grid](x, y)

    message = r"in_triton was made by torch.library.triton_op, .*@in_triton.register_kernel\(\"hpu\"\)"
    for refused in (in_steps, in_a_graph, in_compiled_code):
        with pytest.raises(Exception, match=f"(?s){message}"):
            refused(in_triton)
    assert in_triton(torch.ones(2), 2.0).tolist() == [1.0, 1.0]
    in_triton.register_kernel("hpu", doubled)
    for mode in MODES:
        mode(in_triton)
