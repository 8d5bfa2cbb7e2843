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

    @staticmethod
    def parse_devices(devices: int | str | None) -> int | None:
        """The number that `devices` means. Raises MisconfigurationException, for a list too."""
        return resources._parse_hpus(devices)

    @staticmethod
    def get_parallel_devices(devices: int | None) -> list[torch.device]:
        """A device for each process."""
        return resources.parallel_devices(devices)

    @staticmethod
    def auto_device_count() -> int:
        """The number of devices that `devices="auto"` takes."""
        return resources.device_count()

    @staticmethod
    def is_available() -> bool:
        """Whether there is an hpu device."""
        return torch_hpu.is_available()

    @staticmethod
    def name() -> str:
        """hpu."""
        return "hpu"

    @staticmethod
    def get_device_name() -> str:
        """GAUDI, GAUDI2 or GAUDI3."""
        return torch_hpu.get_device_name()

    @classmethod
    def register_accelerators(cls, accelerator_registry: Any) -> None:
        """Register `hpu`, unless it is."""
        if "hpu" not in accelerator_registry:
            accelerator_registry.register("hpu", cls, description=cls.__name__)
