"""The operators recorded on hpu are those of the CPU, so that composites choose alike on both devices."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .support import MODELS, loss_of, make, train_step


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
        model, chosen, x, target = make(name, optimizer, device, fused=True)
        train_step(model, chosen, x, target)
        with Trace() as trace:
            train_step(model, chosen, x, target)
        calls[device] = trace.calls
    assert calls["hpu"] == calls["cpu"]


@pytest.mark.parametrize("name", MODELS)
def test_a_float32_training_step_needs_no_fallback_and_copies_no_output(name, counted):
    model, optimizer, x, target = make(name)
    for _ in range(2):
        train_step(model, optimizer, x, target)
    with counted() as steps:
        for _ in range(3):
            train_step(model, optimizer, x, target)
        torch.hpu.synchronize()
    assert steps["ops_fallback"] == steps["ops_waited"] == steps["outputs_copied"] == 0
    assert steps["ops_issued"] > 60


@pytest.mark.parametrize("name", ["mlp", "gpt"])
def test_a_bfloat16_autocast_step_needs_no_fallback(name, counted):
    model, optimizer, x, target = make(name)
    with counted() as steps:
        for _ in range(2):
            optimizer.zero_grad()
            with torch.autocast("hpu", dtype=torch.bfloat16):
                loss = loss_of(model, x, target)
            loss.backward()
            optimizer.step()
    assert loss.isfinite().item() and steps["ops_fallback"] == 0
