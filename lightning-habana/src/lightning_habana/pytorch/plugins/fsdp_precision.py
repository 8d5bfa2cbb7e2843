"""Precision of HPUFSDPStrategy."""

from lightning_habana import roots
from lightning_habana.fsdp_precisions import HPUShardedAutocast


class HPUFSDPPrecision(HPUShardedAutocast, roots.pytorch("plugins.precision").FSDPPrecision):  # type: ignore[misc]
    """Lightning's FSDPPrecision on hpu: "32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true".

    Raises ValueError for another precision.
    """


HPUFSDPPrecisionPlugin = HPUFSDPPrecision  # the guide's name of it
