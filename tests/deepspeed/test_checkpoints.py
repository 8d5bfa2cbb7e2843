"""Checkpoints: resumed, put together, made universal, and loaded by other numbers of ranks and other stages."""

import pytest
import torch
import torch.distributed as dist

from tests.deepspeed import training


def save(settings, folder, before=3, after=3):
    """Losses after a checkpoint, and the weights that it holds."""
    with training.engine_of(settings) as engine:
        training.steps(engine, before)
        engine.save_checkpoint(folder, tag="here", client_state={"note": "a text"})
        weights = full_weights(engine)
        return training.steps(engine, after, seed=1), weights


def load(settings, folder, after=3, **how):
    """Losses after a checkpoint was loaded, what the client stored, and the weights."""
    with training.engine_of(settings, training.model(seed=7)) as engine:
        path, client = engine.load_checkpoint(folder, **how)
        assert path is not None
        weights = full_weights(engine)
        return training.steps(engine, after, seed=1), client.get("note"), weights


def full_weights(engine):
    """All weights, in float32."""
    import deepspeed

    found = {}
    for name, parameter in engine.module.named_parameters():
        with deepspeed.zero.GatheredParameters(parameter, enabled=hasattr(parameter, "ds_id")):
            found[name] = parameter.detach().float().cpu().numpy().copy()
    return found


def close(found, expected, rtol=1e-5):
    torch.testing.assert_close(found, expected, rtol=rtol, atol=1e-6)


def make_universal(folder):
    """In one of the ranks."""
    import argparse

    from deepspeed.checkpoint import ds_to_universal

    if dist.get_rank() > 0:
        return
    ds_to_universal.main(
        argparse.Namespace(
            input_folder=f"{folder}/here",
            output_folder=f"{folder}/universal",
            num_extract_workers=1,
            num_merge_workers=1,
            keep_temp_folder=False,
            strict=True,
            inject_missing_state=True,
        )
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_resumed(tmp_path, stage, precision):
    settings = training.config(stage, precision)
    saved = training.on_hpu(save, settings, str(tmp_path))
    loaded = training.on_hpu(load, settings, str(tmp_path))
    for (losses, weights), (again, note, read) in zip(saved, loaded, strict=True):
        assert again == pytest.approx(losses, rel=1e-6)
        assert note == "a text"
        close(read, weights)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_cpu_reads_what_hpu_wrote(tmp_path, stage):
    settings = training.config(stage)
    settings["optimizer"]["params"]["torch_adam"] = True
    saved = training.on_hpu(save, settings, str(tmp_path))
    for (losses, weights), (again, _, read) in zip(saved, training.on_cpu(load, settings, str(tmp_path)), strict=True):
        assert again == pytest.approx(losses, rel=1e-4)
        close(read, weights)


@pytest.mark.parametrize(("stage", "other"), [(1, 2), (2, 1), (3, 3)])
def test_universal_to_another_number_of_ranks(tmp_path, stage, other):
    """Weights and optimizer state of two ranks go on in one."""
    saved = training.on_hpu(save, training.config(stage), str(tmp_path))
    training.on_hpu(make_universal, str(tmp_path))
    settings = training.config(other, checkpoint={"load_universal": True})
    (loaded,) = training.on_hpu(load, settings, str(tmp_path), tag="universal", size=1)
    close(loaded[2], saved[0][1])
    assert loaded[0] == pytest.approx(saved[0][0], rel=0.05)
