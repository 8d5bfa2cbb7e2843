"""What a rank keeps: weights, gradients and optimizer state, divided among ranks as the stage says."""

import gc

import pytest

from tests.deepspeed import training

BUCKET = 10_000


def kept(settings):
    """Bytes on the device after a step, after a backward, and the number of parameters."""
    with training.deepspeed_alone() as deepspeed:
        accelerator = deepspeed.accelerator.get_accelerator()
        gc.collect()  # engines refer to themselves
        accelerator.synchronize()
        before = accelerator.memory_allocated()
        net = training.model(layers=6, width=128)
        number = sum(parameter.numel() for parameter in net.parameters())
        engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=settings)
        training.steps(engine, 2)
        accelerator.synchronize()
        states = accelerator.memory_allocated() - before
        for batch in training.batches(1):
            engine.backward(training.loss_of(engine, *batch))
            del batch
        accelerator.synchronize()
        with_gradients = accelerator.memory_allocated() - before
        engine.destroy()
        return number, states, with_gradients


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_states_are_divided(stage):
    """Mixed precision: weights 2 bytes; float32 weights and two moments 12 bytes, gradients 2 bytes, divided."""
    settings = training.config(stage, "bf16")
    settings["zero_optimization"] |= {"reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET}
    for number, states, with_gradients in training.on_hpu(kept, settings):
        weights = 2 * number / (2 if stage == 3 else 1)
        expected = weights + 12 * number / 2
        assert expected <= states * 1.001
        assert states <= 1.1 * expected
        gradients = 2 * number / (1 if stage == 1 else 2)
        assert with_gradients <= 1.1 * (expected + gradients)
