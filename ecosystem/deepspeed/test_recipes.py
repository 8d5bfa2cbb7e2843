"""In lazy mode a step's operators run in recipes; losses are those of eager mode."""

import copy

import pytest

from tests.deepspeed import training
from tests.distributed import ranks

COMPILED = training.HPU | {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""}


def counted(settings):
    """Losses; of the last steps the operators that were recorded, and that ran in recipes."""
    import openhpu

    with training.deepspeed_alone() as deepspeed:
        net = training.model()
        engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=copy.deepcopy(settings))
        losses = training.steps(engine, 8)
        openhpu.wait_for_recipes(60)
        openhpu.reset_counters()
        losses += training.steps(engine, 4, seed=1)
        openhpu.hpu.synchronize()
        found = openhpu.counters()
        engine.destroy()
        return losses, found["ops_recorded"], found["ops_in_recipes"]


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_steps_run_in_recipes(stage):
    settings = training.config(stage, "bf16")
    found = ranks.call(counted, settings, size=2, backend="hccl", variables=COMPILED)
    expected = training.on_hpu(counted, settings)
    for (mine, recorded, in_recipes), (theirs, *_) in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-2)
        assert in_recipes >= 0.8 * recorded > 0
