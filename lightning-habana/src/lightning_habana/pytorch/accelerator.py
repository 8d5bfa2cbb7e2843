"""Trainer's accelerator "hpu"."""

import habana_frameworks.torch.core as htcore
from lightning_habana import roots
from lightning_habana.accelerators import HPUDevices
from lightning_habana.utils import resources


class HPUAccelerator(HPUDevices, roots.pytorch("accelerators").Accelerator):  # type: ignore[misc]
    """`Trainer(accelerator=HPUAccelerator())`, which is `Trainer(accelerator="hpu")`."""

    wrong_device = roots.MisconfigurationException
    get_device_stats = staticmethod(resources.get_device_stats)
    is_fp8_available = staticmethod(resources.is_fp8_available)
    is_lazy = staticmethod(htcore.is_lazy)
