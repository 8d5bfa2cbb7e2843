"""The common part of Trainer's and Fabric's accelerators. Both are named "hpu"."""

from typing import Any

import torch

import habana_frameworks.torch.hpu as torch_hpu
from lightning_habana.utils import resources


class HPUDevices:
    """The devices, as Lightning asks an accelerator for them."""

    wrong_device: type[Exception] = ValueError

    def setup_device(self, device: torch.device) -> None:
        """Check that `device` is an hpu. Selects none."""
        if device.type != "hpu":
            raise self.wrong_device(f"Device should be HPU, got {device} instead.")

    def teardown(self) -> None:
        """Nothing is to be undone."""

    parse_devices = staticmethod(resources._parse_hpus)
    get_parallel_devices = staticmethod(resources.parallel_devices)
    auto_device_count = staticmethod(resources.device_count)
    is_available = staticmethod(torch_hpu.is_available)
    get_device_name = staticmethod(torch_hpu.get_device_name)

    @staticmethod
    def name() -> str:
        """hpu."""
        return "hpu"

    @classmethod
    def register_accelerators(cls, accelerator_registry: Any) -> None:
        """Register `hpu`, unless it is."""
        if "hpu" not in accelerator_registry:
            accelerator_registry.register("hpu", cls, description=cls.__name__)
