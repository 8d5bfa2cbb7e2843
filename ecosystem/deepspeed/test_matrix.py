"""Stages x offload x precision x ranks: each cell trains as on the CPU, or is refused by DeepSpeed on both alike."""

import functools
import json

import pytest

from tests.deepspeed import training
from tests.deepspeed.test_checkpoints import close, load, make_universal, save
from tests.deepspeed.test_offload import libaio, offloaded

# Name to (optimizer's place, parameters' place).
OFFLOAD = {"none": (None, None), "optimizer": ("cpu", None), "parameters": ("cpu", "cpu"), "nvme": ("nvme", "nvme")}
CELLS = [
    (stage, offload, precision, size)
    for size in (1, 2, 4)
    for stage in (0, 1, 2, 3)
    for offload in OFFLOAD
    for precision in ("fp32", "bf16", "fp16")
]


def attempt(settings, number):
    """Losses, or the error's kind and text."""
    try:
        return training.train(settings, number)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def settings_of(stage, offload, precision, folder):
    optimizer, parameters = OFFLOAD[offload]
    return offloaded(stage, precision, optimizer, parameters, str(folder) if offload == "nvme" else None)


@functools.cache
def reference(stage, precision, size):
    # The CPU accelerator has float16 on few machines: float32 then.
    settings = training.config(stage, "fp32" if precision == "fp16" else precision)
    settings["optimizer"]["params"]["torch_adam"] = True
    return training.on_cpu(training.train, settings, size=size)


@pytest.mark.parametrize(("stage", "offload", "precision", "size"), CELLS)
def test_cell(tmp_path, stage, offload, precision, size):
    if offload == "nvme" and not libaio():
        pytest.skip("libaio-dev is not installed")
    settings = settings_of(stage, offload, precision, tmp_path)
    found = training.on_hpu(attempt, settings, 6, size=size)
    if any(isinstance(mine, str) for mine in found):
        theirs = training.on_cpu(attempt, json.loads(json.dumps(settings)), 6, size=size)
        assert found == theirs
        pytest.skip(f"DeepSpeed's rule: {found[0][:200]}")
    for mine, theirs in zip(found, reference(stage, precision, size), strict=True):
        assert mine == pytest.approx(theirs, rel=training.TOLERANCE[precision])


TRIPS = [
    ((1, "none", 2), (2, "optimizer", 4)),
    ((2, "optimizer", 2), (1, "none", 1)),
    ((3, "none", 4), (3, "parameters", 2)),
    ((3, "parameters", 2), (3, "none", 4)),
    ((3, "nvme", 2), (3, "none", 1)),
]


@pytest.mark.parametrize(("first", "second"), TRIPS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_round_trips(tmp_path, first, second, precision):
    """A universal checkpoint of one cell goes on in another: the same weights, and losses that follow them."""
    if "nvme" in (first[1], second[1]) and not libaio():
        pytest.skip("libaio-dev is not installed")
    (tmp_path / "kept").mkdir()
    folder, files = str(tmp_path / "kept"), tmp_path / "nvme"
    files.mkdir()
    stage, offload, size = first
    saved = training.on_hpu(save, settings_of(stage, offload, precision, files), folder, size=size)
    training.on_hpu(make_universal, folder, size=size)
    stage, offload, size = second
    settings = settings_of(stage, offload, precision, files) | {"checkpoint": {"load_universal": True}}
    loaded = training.on_hpu(load, settings, folder, tag="universal", size=size)
    for _, _, weights in loaded:
        close(weights, saved[0][1], rtol=1e-5 if precision == "fp32" else 1e-2)
