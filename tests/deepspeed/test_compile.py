"""Compiled engines: the same losses, from graphs that the backend for hpu has made."""

import copy
import json

import pytest
import torch

from tests.deepspeed import training
from tests.deepspeed.test_zero import reference


def reference_of(settings):
    return reference(json.dumps(settings), 2)


def compiled(settings, before, backend, number=6):
    """Losses, or an error's text; and how many graphs Dynamo found. `before`: by PyTorch, before DeepSpeed's work."""
    with training.deepspeed_alone() as deepspeed:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        net = training.model()
        if before:
            net = torch.compile(net, backend=backend)
        engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=copy.deepcopy(settings))
        if not before:
            engine.compile(**({"backend": backend} if backend else {}))
        try:
            found = training.steps(engine, number)
        except AttributeError as error:
            found = str(error)
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        engine.destroy()
        return found, graphs


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_engine_compile(stage):
    """It takes the backend for hpu by itself."""
    settings = training.config(stage)
    for (losses, graphs), theirs in zip(
        training.on_hpu(compiled, settings, False, None), reference_of(settings), strict=True
    ):
        assert losses == pytest.approx(theirs, rel=training.TOLERANCE["fp32"])
        assert graphs > 0


@pytest.mark.parametrize("stage", [1, 2])
def test_a_compiled_module(stage):
    settings = training.config(stage)
    for (losses, graphs), theirs in zip(
        training.on_hpu(compiled, settings, True, "hpu_backend"), reference_of(settings), strict=True
    ):
        assert losses == pytest.approx(theirs, rel=training.TOLERANCE["fp32"])
        assert graphs > 0
