"""The operators recorded on hpu are those of the CPU, so that composites choose alike on both devices."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention
from torch.utils._python_dispatch import TorchDispatchMode

from .support import MODELS, agree, make, train_step


class Trace(TorchDispatchMode):
    """Notes each operator below autograd with its operands' shapes."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        shapes = tuple(tuple(arg.shape) for arg in args if isinstance(arg, torch.Tensor))
        if str(function) not in QUESTIONS:
            self.calls.append((str(function), shapes))
        return function(*args, **kwargs or {})


# Questions of composites to the device, answered from metadata; on the CPU PyTorch asks without the dispatcher.
QUESTIONS = {"aten._fused_sdp_choice.default"}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_training_step_records_the_operators_of_the_cpu(name, optimizer):
    calls = {}
    for device in ("cpu", "hpu"):
        known = make(name, optimizer, device, steps=1, fused=True)
        with Trace() as trace:
            train_step(*known)
        calls[device] = trace.calls
    assert calls["hpu"] == calls["cpu"]


@pytest.mark.parametrize("name", MODELS)
def test_a_float32_training_step_needs_no_fallback_and_copies_no_output(name, counted):
    known = make(name, steps=2)
    with counted(ops_fallback=0, ops_waited=0, outputs_copied=0) as steps:
        for _ in range(3):
            train_step(*known)
        torch.hpu.synchronize()
    assert steps["ops_issued"] > 60


@pytest.mark.parametrize("name", ["mlp", "gpt"])
def test_a_bfloat16_autocast_step_needs_no_fallback(name, counted):
    made = make(name)
    with counted(ops_fallback=0), torch.autocast("hpu", dtype=torch.bfloat16):
        losses = [train_step(*made) for _ in range(2)]
    assert torch.stack(losses).isfinite().all().item()


def test_grouped_queries():
    q, k, v = torch.randn(2, 4, 10, 8), *torch.randn(2, 2, 2, 10, 8)
    agree(lambda q, k, v: attention(q, k, v, enable_gqa=True), q, k, v, exact=False)


def test_attention_takes_the_flash_kernel():
    q, k, v = torch.randn(3, 2, 4, 10, 8, device="hpu")
    with Trace() as trace:
        attention(q, k, v, is_causal=True)
    assert [name for name, _ in trace.calls] == ["aten._scaled_dot_product_flash_attention_for_cpu.default"]
