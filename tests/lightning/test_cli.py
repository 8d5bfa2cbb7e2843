"""LightningCLI: accelerator and strategy by name and by class path."""

import json

import pytest

from lightning_habana import (
    HPUAccelerator,
    HPUDDPStrategy,
    HPUDeepSpeedStrategy,
    HPUFSDPStrategy,
    SingleHPUStrategy,
    roots,
)
from tests.lightning.support import Classifier

cli = roots.pytorch("cli")
# How Lightning uses jsonargparse.
pytestmark = pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")


def by_class(name, path, **arguments):
    """An argument as a configuration file has it. A path alone is a name for Lightning, which allows both."""
    return f"--trainer.{name}={json.dumps({'class_path': path, 'init_args': arguments})}"


@pytest.mark.parametrize(("arguments", "strategy"), [
    (["--trainer.accelerator=hpu", "--trainer.devices=1"], SingleHPUStrategy),
    (["--trainer.accelerator=hpu", "--trainer.devices=2"], HPUDDPStrategy),
    (["--trainer.accelerator=hpu", "--trainer.devices=2", "--trainer.strategy=hpu_fsdp"], HPUFSDPStrategy),
    ([by_class("accelerator", "lightning_habana.HPUAccelerator"), "--trainer.devices=1"], SingleHPUStrategy),
    (
        [
            by_class("accelerator", "lightning_habana.pytorch.accelerator.HPUAccelerator"), "--trainer.devices=2",
            by_class("strategy", "lightning_habana.pytorch.strategies.HPUDDPStrategy", bucket_cap_mb=1),
        ],
        HPUDDPStrategy,
    ),
    (
        [
            "--trainer.accelerator=hpu", "--trainer.devices=1",
            by_class("strategy", "lightning_habana.pytorch.strategies.HPUDeepSpeedStrategy", stage=1),
        ],
        HPUDeepSpeedStrategy,
    ),
])  # fmt: skip
def test_by_name_and_class_path(arguments, strategy, monkeypatch):
    monkeypatch.setattr("sys.argv", ["train.py"])
    made = cli.LightningCLI(
        Classifier, run=False, save_config_callback=None,
        args=[*arguments, "--seed_everything=1", "--trainer.logger=false", "--trainer.enable_checkpointing=false"],
    )  # fmt: skip
    assert type(made.trainer.strategy) is strategy and type(made.trainer.accelerator) is HPUAccelerator
