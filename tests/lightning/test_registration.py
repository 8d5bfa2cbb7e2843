"""What Lightning knows of hpu, and what it chooses."""

import importlib

import pytest
import torch
from lightning_utilities.core.imports import RequirementCache

import lightning_habana
from lightning_habana import fabric, pytorch, roots
from tests.lightning.support import make_trainer

# Of DeepSpeed's, fabric/strategies/test_deepspeed.py has the others.
NAMES = {
    "hpu_single": pytorch.SingleHPUStrategy,
    "hpu_parallel": pytorch.HPUParallelStrategy,
    "hpu_ddp": pytorch.HPUDDPStrategy,
    "hpu_fsdp": pytorch.HPUFSDPStrategy,
    "hpu_deepspeed_stage_3_offload_nvme": pytorch.HPUDeepSpeedStrategy,
}


@pytest.mark.parametrize("name", NAMES)
def test_strategies_by_name(name):
    trainer = make_trainer(accelerator="hpu", devices=1 if name == "hpu_single" else 2, strategy=name)
    assert type(trainer.strategy) is NAMES[name]


@pytest.mark.parametrize("accelerator", ["auto", "hpu", lightning_habana.HPUAccelerator()])
def test_several_devices_are_data_parallel(accelerator):
    for devices in (2, "2", 8):
        trainer = make_trainer(accelerator=accelerator, devices=devices)
        assert type(trainer.strategy) is pytorch.HPUDDPStrategy
        assert trainer.num_devices == int(devices)
    assert trainer.world_size == 8


@pytest.mark.parametrize("devices", ["auto", -1, "-1"])
def test_all_devices(devices):
    assert make_trainer(accelerator="hpu", devices=devices).num_devices == torch.hpu.device_count()


@pytest.mark.parametrize("devices", [[0], [0, 1], "0,1", 1.5, "many", 9, -2, "9"])
def test_devices_that_there_are_not(devices):
    with pytest.raises(roots.MisconfigurationException, match="devices"):
        make_trainer(accelerator="hpu", devices=devices)
    with pytest.raises(roots.MisconfigurationException, match="devices"):
        roots.fabric().Fabric(accelerator="hpu", devices=devices)


def test_no_device():
    with pytest.raises(roots.MisconfigurationException, match="devices=0"):
        make_trainer(accelerator="hpu", devices=0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"accelerator": "cpu", "strategy": "hpu_single"},
        {"accelerator": "cpu", "devices": 2, "strategy": "hpu_ddp"},
        {"accelerator": "hpu", "devices": 2, "strategy": "ddp"},
        {"devices": 2, "strategy": "ddp"},
    ],
)
def test_accelerator_and_strategy_go_together(arguments):
    with pytest.raises(roots.MisconfigurationException, match=r"go together.*'hpu_single', 'hpu_parallel', 'hpu_ddp'"):
        make_trainer(**{"devices": 1} | arguments)


def test_other_accelerators_are_as_they_were():
    trainer = make_trainer(accelerator="cpu", devices=1, precision="bf16-mixed")
    assert type(trainer.strategy).__name__ == "SingleDeviceStrategy"
    assert trainer.precision_plugin.device == "cpu"


def test_fabric():
    make = roots.fabric().Fabric
    for arguments in ({}, {"accelerator": "hpu"}, {"accelerator": fabric.HPUAccelerator()}):
        assert type(make(devices=1, **arguments).strategy) is fabric.SingleHPUStrategy
        assert type(make(devices=2, **arguments).strategy) is fabric.HPUDDPStrategy
    assert type(make(devices=1, strategy="single_hpu").strategy) is fabric.SingleHPUStrategy
    assert type(make(devices=2, strategy="hpu_parallel").strategy) is fabric.HPUParallelStrategy
    assert type(make(devices=2, strategy="hpu_fsdp", precision="bf16-mixed")._precision) is fabric.HPUFSDPPrecision


def test_distribution():
    assert RequirementCache("lightning-habana>=1.2.0")
    assert lightning_habana.HPU_AVAILABLE
    assert lightning_habana.__version__.startswith("1.")


@pytest.mark.parametrize(
    "path",
    [
        "pytorch.accelerator.HPUAccelerator",
        "pytorch.strategies.single.SingleHPUStrategy",
        "pytorch.strategies.parallel.HPUParallelStrategy",
        "pytorch.strategies.ddp.HPUDDPStrategy",
        "pytorch.strategies.fsdp.HPUFSDPStrategy",
        "pytorch.strategies.deepspeed.HPUDeepSpeedStrategy",
        "pytorch.plugins.precision.HPUPrecisionPlugin",
        "pytorch.plugins.fsdp_precision.HPUFSDPPrecision",
        "pytorch.plugins.fsdp_precision.HPUFSDPPrecisionPlugin",
        "pytorch.plugins.io_plugin.HPUCheckpointIO",
        "pytorch.profiler.profiler.HPUProfiler",
        "fabric.accelerator.HPUAccelerator",
        "fabric.strategies.HPUFSDPStrategy",
        "fabric.plugins.HPUPrecision",
        "fabric.plugins.HPUCheckpointIO",
    ],
)
def test_public_names(path):
    module, name = f"lightning_habana.{path}".rsplit(".", 1)
    assert getattr(importlib.import_module(module), name)
    package = importlib.import_module(".".join(module.split(".")[:3]))
    assert all(hasattr(package, known) for known in getattr(package, "__all__", ()))
