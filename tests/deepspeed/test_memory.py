"""What a rank keeps: weights, gradients and optimizer state, divided among ranks as the stage says."""

import gc

import pytest

from tests.deepspeed import training

# Model and bucket size in elements: one that is done soon, and 25 million parameters with those of the measures.
SIZES = {"small": ({"layers": 6, "width": 128}, 10_000), "25 M": ({"layers": 8, "width": 512}, 1_000_000)}


def kept(settings, made):
    """Bytes on the device after a step, after a backward, and the number of parameters."""
    with training.deepspeed_alone() as deepspeed:
        accelerator = deepspeed.accelerator.get_accelerator()
        gc.collect()  # engines refer to themselves
        accelerator.synchronize()
        before = accelerator.memory_allocated()
        net = training.model(**made)
        number = sum(parameter.numel() for parameter in net.parameters())
        with training.engine_of(settings, net) as engine:
            training.steps(engine, 2)
            accelerator.synchronize()
            states = accelerator.memory_allocated() - before
            for batch in training.batches(1):
                engine.backward(training.loss_of(engine, *batch))
                del batch
            accelerator.synchronize()
            return number, states, accelerator.memory_allocated() - before


@pytest.mark.parametrize(("stage", "after_step", "after_backward"), [(1, 8, 9), (2, 8, 9), (3, 8, 8)])
@pytest.mark.parametrize("which", SIZES)
def test_states_are_divided(stage, after_step, after_backward, which):
    """Bytes a parameter in mixed precision, of two ranks: S. Rajbhandari et al., 2020, figure 1, with N = 2.

    Weights and gradients have 2 bytes each; float32 weights and two moments 12. Stages 1 and 2 give gradients back
    after a step, stage 3 keeps their memory. Stage 1, too, keeps only its part of gradients where a step is one micro
    batch.
    """
    made, bucket = SIZES[which]
    settings = training.config(stage, "bf16")
    settings["zero_optimization"] |= {"reduce_bucket_size": bucket, "allgather_bucket_size": bucket}
    if stage == 3:
        settings["zero_optimization"] |= {"stage3_prefetch_bucket_size": bucket}
    for number, states, with_gradients in training.on_hpu(kept, settings, made):
        assert states / number == pytest.approx(after_step, rel=0.1)
        assert with_gradients / number == pytest.approx(after_backward, rel=0.1)
