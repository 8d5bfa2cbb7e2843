"""Trainer's accelerator "hpu"."""

from typing import Any

import habana_frameworks.torch.core as htcore
from lightning_habana import roots
from lightning_habana.accelerators import HPUDevices
from lightning_habana.utils import resources


class HPUAccelerator(HPUDevices, roots.pytorch("accelerators").Accelerator):  # type: ignore[misc]
    """`Trainer(accelerator=HPUAccelerator())`, which is `Trainer(accelerator="hpu")`."""

    wrong_device = roots.MisconfigurationException

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        """The ten statistics of the device's memory manager, in bytes and counts."""
        return resources.get_device_stats(device)

    @staticmethod
    def is_fp8_available() -> tuple[bool, str]:
        """Whether the generation has float8, and the reason if not."""
        return resources.is_fp8_available()

    @staticmethod
    def is_lazy() -> bool:
        """Whether the process is in lazy mode."""
        return htcore.is_lazy()
