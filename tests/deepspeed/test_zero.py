"""ZeRO of every stage trains on hpu as DeepSpeed does on the CPU."""

import functools
import json

import pytest
import torch

from tests.deepspeed import training


def with_torch(settings):
    """The configuration with PyTorch's AdamW, where DeepSpeed's own would be compiled first."""
    copied = json.loads(json.dumps(settings))
    copied["optimizer"]["params"]["torch_adam"] = True
    return copied


@functools.cache
def reference(settings, size, number=6):
    return training.on_cpu(training.train, with_torch(json.loads(settings)), number, size=size)


def agree(found, expected, precision):
    """The losses of each rank, within the tolerance of the precision."""
    assert found == [pytest.approx(losses, rel=training.TOLERANCE[precision]) for losses in expected]


def same_as_cpu(settings, precision="fp32", size=2, number=6):
    found = training.on_hpu(training.train, settings, number, size=size)
    agree(found, reference(json.dumps(settings), size, number), precision)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_stages(stage, precision):
    same_as_cpu(training.config(stage, precision), precision)


def test_four_ranks():
    same_as_cpu(training.config(3, "bf16"), "bf16", size=4)


@pytest.mark.parametrize(("precision", "mean"), [("fp32", 1e-4), ("bf16", 2e-3)])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_fifty_steps(stage, precision, mean):
    """Each loss, and the mean of the differences with their signs, relative, with a GPT of 0.8 million parameters."""
    settings = training.config(stage, precision)
    made = {"layers": 4, "width": 128}
    expected = training.on_cpu(training.train, with_torch(settings), 50, **made)
    for mine, theirs in zip(training.on_hpu(training.train, settings, 50, **made), expected, strict=True):
        assert mine == pytest.approx(theirs, rel=training.TOLERANCE[precision])
        assert abs(sum((m - t) / t for m, t in zip(mine, theirs, strict=True))) / 50 < mean


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_accumulation_clipping_and_schedule(stage):
    schedule = {"warmup_min_lr": 0, "warmup_max_lr": 2e-3, "warmup_num_steps": 2, "total_num_steps": 4}
    scheduler = {"type": "WarmupDecayLR", "params": schedule | {"warmup_type": "linear"}}
    more = {"gradient_accumulation_steps": 2, "gradient_clipping": 0.1, "scheduler": scheduler}
    same_as_cpu(training.config(stage, **more), number=8)


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_decay_as_gradient(stage):
    """Adam with adam_w_mode off."""
    optimizer = {"type": "Adam", "params": {"lr": 1e-3, "weight_decay": 0.5, "adam_w_mode": False}}
    same_as_cpu(training.config(stage, optimizer=optimizer))


def waits():
    """Whether DeepSpeed asks for waits, and on which stream it works."""
    with training.deepspeed_alone() as deepspeed:
        accelerator = deepspeed.accelerator.get_accelerator()
        return not accelerator.resolves_data_dependency(), accelerator.Stream() == torch.hpu.default_stream()


def test_one_stream():
    """What it does where that does not hold: a race, which tests of Lightning's checkpoints lose as a rule."""
    assert training.on_hpu(waits, size=1) == [(True, True)]


def scales(settings, number):
    """Loss scales after each step, losses, and how many steps were skipped."""
    with training.engine_of(settings) as engine:
        found = [(training.steps(engine, 1, seed)[0], engine.optimizer.cur_scale) for seed in range(number)]
        return found, engine.skipped_steps


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_float16_scales_losses(stage):
    """A scale that overflows is halved, and the step skipped; losses are float32's.

    Without ZeRO DeepSpeed 0.19.8 scales no loss, on any device, and divides the gradients all the same.
    """
    fp16 = {"enabled": True, "initial_scale_power": 40, "hysteresis": 1, "loss_scale_window": 2}
    settings = training.config(stage, fp16=fp16)
    for found, skipped in training.on_hpu(scales, settings, 30):
        assert 10 < skipped < 30
        assert min(scale for _, scale in found) < 2.0**30
        assert all(loss == loss for loss, _ in found)
    plain = training.on_hpu(training.train, training.config(stage), 6)
    half = training.on_hpu(training.train, training.config(stage, "fp16"), 6)
    agree(half, plain, "fp16")
