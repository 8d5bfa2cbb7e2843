"""A rank that is killed ends the others with an error."""

import pytest

from tests.deepspeed import training
from tests.distributed.ranks import Job

_TRAINING = """
import importlib, warnings
warnings.simplefilter("ignore")
from tests.deepspeed import training
deepspeed = importlib.import_module("deepspeed")
net = training.model()
settings = training.config({stage})
engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=settings)
training.steps(engine, 2)
if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
for _ in range(1000): training.steps(engine, 1)
"""


@pytest.mark.parametrize("stage", [1, 3])
def test_a_rank_that_is_killed(stage):
    with Job(_TRAINING.format(stage=stage), **training.HPU) as job:
        codes, printed = job.ends()
    assert codes[1] == -9
    assert codes[0] == 1
    assert "failed on rank 0 of 2" in printed[0]
