"""Trainer on one device."""

import pytest
import torch

import openhpu
from lightning_habana import HPUAccelerator, HPUCheckpointIO, HPUPrecisionPlugin, SingleHPUStrategy, roots
from tests.lightning.support import Classifier, loader, make_trainer, trained_on_cpu

# Under each of these a Trainer trains on hpu, in float32.
CHOICES = {
    "auto": {},
    "auto devices": {"accelerator": "hpu", "devices": "1"},
    "name": {"accelerator": "hpu"},
    "instance": {"accelerator": HPUAccelerator()},
    "strategy's name": {"accelerator": "hpu", "strategy": "hpu_single"},
    "strategy alone": {"strategy": SingleHPUStrategy()},
    "all": {
        "accelerator": HPUAccelerator(),
        "strategy": SingleHPUStrategy(device="hpu", checkpoint_io=HPUCheckpointIO()),
        "plugins": [HPUPrecisionPlugin("32-true")],
    },
}


@pytest.mark.parametrize("choice", CHOICES)
def test_trains_as_on_the_cpu(choice):
    model = Classifier()
    trainer = make_trainer(**{"devices": 1} | CHOICES[choice])
    assert isinstance(trainer.accelerator, HPUAccelerator)
    assert type(trainer.strategy) is SingleHPUStrategy
    before = openhpu.counters()
    trainer.fit(model, loader(), loader(2))
    after = openhpu.counters()
    assert model.devices == {"hpu"}
    assert model.dtypes == {torch.float32}
    ran = sum(after[name] - before[name] for name in ("ops_submitted", "ops_recorded", "ops_waited"))
    assert ran > 12 * 10
    torch.testing.assert_close(model.weights(), trained_on_cpu(), rtol=1e-4, atol=1e-5)


def test_every_stage():
    model = Classifier()
    trainer = make_trainer(accelerator="hpu", devices=1, max_epochs=4)
    trainer.fit(model, loader(), loader(2))
    assert trainer.callback_metrics["val_loss"] < model.losses[0].cpu()
    loss = trainer.callback_metrics["val_loss"].item()
    assert trainer.validate(model, loader(2), verbose=False)[0]["val_loss"] == pytest.approx(loss, rel=1e-5)
    assert trainer.test(model, loader(2), verbose=False)[0]["test_loss"] == pytest.approx(loss, rel=1e-5)
    _, labels = next(iter(loader(2)))
    predicted = trainer.predict(model, loader(2))
    assert len(predicted) == 2
    assert (predicted[0].cpu() == labels).float().mean() > 0.7


@pytest.mark.parametrize(
    "arguments",
    [
        {"gradient_clip_val": 0.1},
        {"gradient_clip_val": 0.01, "gradient_clip_algorithm": "value"},
        {"accumulate_grad_batches": 2},
    ],
)
def test_options_of_trainer(arguments):
    model = Classifier()
    make_trainer(accelerator="hpu", devices=1, **arguments).fit(model, loader(), loader(2))
    torch.testing.assert_close(model.weights(), trained_on_cpu(**arguments), rtol=1e-4, atol=1e-5)


def test_a_callback_sees_the_memory_statistics():
    seen = {}

    def monitor(trainer, module):
        seen.update(trainer.accelerator.get_device_stats(trainer.strategy.root_device))

    monitors = [roots.pytorch("callbacks").LambdaCallback(on_train_end=monitor)]
    make_trainer(accelerator="hpu", devices=1, max_epochs=1, callbacks=monitors).fit(Classifier(), loader())
    assert len(seen) == 10
    assert 0 < seen["InUse"] < seen["Limit"]


def test_another_device_is_refused():
    with pytest.raises(roots.MisconfigurationException, match=r"device='cpu'\): expected an hpu device"):
        SingleHPUStrategy(device="cpu")
