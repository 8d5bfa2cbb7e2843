"""Compiled engines: the same losses, from graphs that the backend for hpu has made."""

import json

import pytest
import torch

from tests.deepspeed import training
from tests.deepspeed.test_zero import reference


def compiled(settings, before, number=6):
    """Losses, and how many graphs Dynamo found. `before`: compiled by PyTorch, before DeepSpeed's work."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    net = torch.compile(training.model(), backend="hpu_backend") if before else training.model()
    with training.engine_of(settings, net) as engine:
        if not before:
            engine.compile()  # it takes the backend for hpu by itself
        return training.steps(engine, number), torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.mark.parametrize(("stage", "before"), [(1, False), (2, False), (3, False), (1, True), (2, True)])
def test_a_compiled_engine_or_module(stage, before):
    settings = training.config(stage)
    expected = reference(json.dumps(settings), 2)
    for (losses, graphs), theirs in zip(training.on_hpu(compiled, settings, before), expected, strict=True):
        assert losses == pytest.approx(theirs, rel=training.TOLERANCE["fp32"])
        assert graphs > 0
