"""Wrong configurations and broken jobs end with an error, DeepSpeed's or ours, on every rank, and soon."""

import re

import pytest

from tests.deepspeed import training
from tests.distributed.ranks import Job


def message(settings, number=1):
    """The error of a training, or nothing."""
    try:
        training.train(settings, number)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


WRONG = {
    "no batch size": ({"train_micro_batch_size_per_gpu": None}, "AssertionError|batch"),
    "batch sizes that contradict": ({"train_batch_size": 7}, "train_batch_size"),
    "stage 4": ({"zero_optimization": {"stage": 4}}, "ValidationError"),
    "two precisions": ({"fp16": {"enabled": True}, "bf16": {"enabled": True}}, "fp16.*bf16|bf16.*fp16|bfloat16"),
    "an unknown optimizer": ({"optimizer": {"type": "Nothing", "params": {}}}, "Nothing|nothing"),
    "an unknown schedule": ({"scheduler": {"type": "Nothing", "params": {}}}, "Nothing"),
    "an unknown device": (
        {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "moon"}}},
        "ValidationError",
    ),
    "a negative bucket": ({"zero_optimization": {"stage": 2, "reduce_bucket_size": -1}}, "ValidationError"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_configurations(case):
    more, told = WRONG[case]
    settings = {name: value for name, value in (training.config(2) | more).items() if value is not None}
    settings["optimizer"]["params"].setdefault("torch_adam", True)  # the CPU's own would be compiled
    found = training.on_hpu(message, settings)
    assert all(re.search(told, said) for said in found), found
    # DeepSpeed says the same on the CPU.
    for mine, theirs in zip(found, training.on_cpu(message, settings), strict=True):
        assert mine.split(":")[0] == theirs.split(":")[0]


def test_a_missing_file():
    for said in training.on_hpu(message, "/nowhere/settings.json"):
        assert "/nowhere/settings.json" in said


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


_UNEQUAL = (
    _TRAINING.partition("training.steps")[0]
    + """
training.steps(engine, 4 - 2 * rank)
torch.hpu.synchronize()
"""
)


@pytest.mark.parametrize("stage", [1, 3])
def test_unequal_numbers_of_batches(stage):
    with Job(_UNEQUAL.format(stage=stage), **training.HPU) as job:
        codes, printed = job.ends()
    assert codes == [1, 0], printed
    assert re.search(r"failed on rank 0 of 2 .*: rank 1 \(process \d+\) has ended", printed[0]), printed[0]
