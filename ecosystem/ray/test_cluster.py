"""Ray on this machine: modules as resources of tasks and actors, and trainings of two workers, against the CPU."""

import json
import os
import sys
from typing import Any

import pytest

from commands import child
from ecosystem.ray.work import STEPS, WORKERS

TIMEOUT_S = 900
TRAININGS = ("training", "again")


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, Any]:
    """What `work.py` found on each device, one after the other: a cluster of Ray takes many processes."""
    results = {}
    folder = tmp_path_factory.mktemp("ray")
    for device in ("cpu", "hpu"):
        (folder / device).mkdir()
        command = [sys.executable, "-m", "ecosystem.ray.work", device, str(folder / device)]
        environment = os.environ | {
            "OPENHPU_DEVICE_COUNT": str(WORKERS),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",  # 15 by default: beside other work the workers hardly run
        }
        ended = child.run(command, seconds=TIMEOUT_S, cwd=folder / device, env=environment, split=True)
        results[device] = json.loads(ended.checked(f"Ray on {device}").output.splitlines()[-1])
    return results


def test_modules_are_counted(found):
    """By Ray's own manager, which asks torch.hpu."""
    assert found["hpu"]["resources"]["counted"] == WORKERS


def test_actors_hold_modules_of_their_own(found):
    resources = found["hpu"]["resources"]
    assert sorted(each["visible"] for each in resources["held"]) == ["0", "1"]
    assert resources["left"] == 0
    for each in resources["held"]:
        assert each["ids"] == [each["visible"]]
        assert each["count"] == 1
        assert each["sum"] == 24.0


def test_an_actor_of_two_modules(found):
    pair = found["hpu"]["resources"]["pair"]
    assert pair["visible"] == "0,1"
    assert pair["count"] == 2


def test_tasks_use_modules_one_after_the_other(found):
    tasks = found["hpu"]["resources"]["tasks"]
    assert [total for _, _, total in tasks] == [0.0, 1.0, 3.0, 6.0, 10.0, 15.0]
    assert all(modules in (["0"], ["1"]) for _, modules, _ in tasks)


def test_half_a_module_is_refused(found):
    assert "must be whole numbers" in found["hpu"]["resources"]["half"]


@pytest.mark.parametrize("name", TRAININGS)
def test_training(found, name):
    """DDP of two workers: each has its module, and the losses and weights are the CPU's."""
    on_hpu, on_cpu = found["hpu"][name], found["cpu"][name]
    assert on_hpu["kind"] == "DistributedDataParallel"
    assert on_hpu["devices"] == ["hpu"]
    assert on_hpu["backend"] == "hccl"
    assert sorted(on_hpu["modules"]) == ["0", "1"]
    assert on_hpu["step"] == STEPS - 1
    assert on_hpu["equal"]
    assert on_hpu["loss"] == pytest.approx(on_cpu["loss"], rel=1e-4)
    assert on_hpu["weights"] == pytest.approx(on_cpu["weights"], rel=1e-4)


@pytest.mark.parametrize("name", TRAININGS)
def test_checkpoint(found, name):
    assert found["hpu"][name]["saved on"] == ["hpu"]
    assert found["hpu"][name]["saved step"] == STEPS - 1


def test_a_training_goes_on_after_a_worker_failed(found):
    """From the last checkpoint, on the same modules, to the same weights."""
    whole, again = found["hpu"]["training"], found["hpu"]["again"]
    assert again["failed"]
    assert again["weights"] == pytest.approx(whole["weights"], rel=1e-6)
