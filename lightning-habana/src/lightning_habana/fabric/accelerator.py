"""Fabric's accelerator "hpu"."""

from lightning_habana import roots
from lightning_habana.accelerators import HPUDevices


class HPUAccelerator(HPUDevices, roots.fabric("accelerators").Accelerator):  # type: ignore[misc]
    """`Fabric(accelerator=HPUAccelerator())`, which is `Fabric(accelerator="hpu")`."""
