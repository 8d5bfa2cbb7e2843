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


def flags(**arguments):
    return [f"--trainer.{name}={value}" for name, value in arguments.items()]


def by_class(path, **arguments):
    """A value as a configuration file has it. A path alone is a name for Lightning, which allows both."""
    return json.dumps({"class_path": f"lightning_habana.{path}", "init_args": arguments})


DDP = by_class("pytorch.strategies.HPUDDPStrategy", bucket_cap_mb=1)


@pytest.mark.parametrize(
    ("arguments", "strategy"),
    [
        (flags(accelerator="hpu", devices=1), SingleHPUStrategy),
        (flags(accelerator="hpu", devices=2), HPUDDPStrategy),
        (flags(accelerator="hpu", devices=2, strategy="hpu_fsdp"), HPUFSDPStrategy),
        (flags(accelerator=by_class("HPUAccelerator"), devices=1), SingleHPUStrategy),
        (flags(accelerator=by_class("pytorch.accelerator.HPUAccelerator"), devices=2, strategy=DDP), HPUDDPStrategy),
        (
            flags(accelerator="hpu", devices=1, strategy=by_class("pytorch.strategies.HPUDeepSpeedStrategy", stage=1)),
            HPUDeepSpeedStrategy,
        ),
    ],
)
def test_by_name_and_class_path(arguments, strategy, monkeypatch):
    monkeypatch.setattr("sys.argv", ["train.py"])
    made = cli.LightningCLI(
        Classifier,
        run=False,
        save_config_callback=None,
        args=[*arguments, "--seed_everything=1", "--trainer.logger=false", "--trainer.enable_checkpointing=false"],
    )
    assert type(made.trainer.strategy) is strategy
    assert type(made.trainer.accelerator) is HPUAccelerator
