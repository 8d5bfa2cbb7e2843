"""Compiled engines: the same losses, from graphs that the backend for hpu has made."""

import copy

import pytest
import torch

from tests.deepspeed import training
from tests.deepspeed.test_zero import with_torch


def compiled(settings, how, number=6):
    """Losses, and how many graphs Dynamo found."""
    with training.deepspeed_alone() as deepspeed:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        net = training.model()
        if how == "torch.compile":
            net = torch.compile(net, backend="hpu_backend")
        engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=copy.deepcopy(settings))
        if how == "engine.compile":
            engine.compile()
        losses = training.steps(engine, number)
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        engine.destroy()
        return losses, graphs


@pytest.mark.parametrize("how", ["engine.compile", "torch.compile"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_compiled(stage, how):
    """engine.compile() takes hpu_backend by itself."""
    settings = training.config(stage)
    expected = training.on_cpu(training.train, with_torch(settings))
    for (losses, graphs), theirs in zip(training.on_hpu(compiled, settings, how), expected, strict=True):
        assert losses == pytest.approx(theirs, rel=training.TOLERANCE["fp32"])
        assert graphs > 0
