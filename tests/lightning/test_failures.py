"""What goes wrong in a training: Ctrl-C, callbacks that raise, checkpoints of other devices."""

import os
import signal

import pytest
import torch

from lightning_habana import roots
from tests.lightning.support import Classifier, loader, make_trainer, trained_on_cpu

callbacks = roots.pytorch("callbacks")


def make(folder, *extra, **arguments):
    saving = callbacks.ModelCheckpoint(dirpath=folder, save_last=True, every_n_train_steps=6, save_top_k=-1)
    return make_trainer(
        folder, accelerator="hpu", devices=1, enable_checkpointing=True, callbacks=[saving, *extra], **arguments
    )


def fit(trainer):
    trainer.fit(Classifier(), loader(), loader(2))


def check_last(folder, step):
    """The last checkpoint is whole, and training goes on from it as if nothing had happened."""
    last = torch.load(folder / "last.ckpt", weights_only=False)
    assert last["global_step"] == step
    assert {value.device.type for value in last["state_dict"].values()} == {"cpu"}
    check_resumed(folder / "last.ckpt")


def check_resumed(path):
    model = Classifier()
    make_trainer(accelerator="hpu", devices=1).fit(model, loader(), loader(2), ckpt_path=path)
    torch.testing.assert_close(model.weights(), trained_on_cpu(), rtol=1e-4, atol=1e-5)


def test_interrupt(tmp_path):
    def interrupt(trainer, *rest):
        if trainer.global_step == 8:
            os.kill(os.getpid(), signal.SIGINT)

    trainer = make(tmp_path, callbacks.LambdaCallback(on_train_batch_end=interrupt))
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        fit(trainer)
        raise KeyboardInterrupt  # some versions end the fit without one
    assert trainer.interrupted
    assert trainer.global_step == 8
    check_last(tmp_path, 6)


def test_save_that_fails(tmp_path):
    trainer = make(tmp_path)
    fit(trainer)
    before = (tmp_path / "last.ckpt").read_bytes()
    state = trainer._checkpoint_connector.dump_checkpoint()
    with pytest.raises((AttributeError, TypeError), match=r"pickle|local object"):
        trainer.strategy.checkpoint_io.save_checkpoint({**state, "bad": lambda: 0}, tmp_path / "last.ckpt")
    assert (tmp_path / "last.ckpt").read_bytes() == before


def test_checkpoint_io_rejects_what_it_does_not_use(tmp_path):
    with pytest.raises(TypeError, match="storage_options"):
        make(tmp_path).strategy.checkpoint_io.save_checkpoint({}, tmp_path / "x.ckpt", storage_options={"a": 1})


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_checkpoint_of_another_device_resumes_on_hpu(device, tmp_path):
    trainer = make_trainer(accelerator="cpu", devices=1, max_epochs=1)
    trainer.fit(Classifier(), loader(), loader(2))
    state = trainer._checkpoint_connector.dump_checkpoint()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda storage: device)
        torch.save(state, tmp_path / "last.ckpt")
    check_resumed(tmp_path / "last.ckpt")
