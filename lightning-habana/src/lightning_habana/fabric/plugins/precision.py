"""Fabric's precision on hpu."""

from typing import Any

from lightning_habana import roots
from lightning_habana.precisions import HPUAutocast

_precision: Any = roots.fabric("plugins.precision")


class HPUPrecision(HPUAutocast, _precision.MixedPrecision):  # type: ignore[misc]
    """Forward passes of a mixed precision run under torch.autocast("hpu"); float16 with a gradient scaler.

    `precision`: "32-true" or "32" (nothing is cast), "bf16-mixed" or "bf16", "16-mixed". Raises ValueError for others.
    """

    allowed = ("32", "32-true", "bf16", "bf16-mixed", "16-mixed")
    trainer = "Fabric"

    def convert_input(self, data: Any) -> Any:
        """The input in the dtype of a mixed precision; as it is in full precision."""
        return data if self.precision.startswith("32") else super().convert_input(data)

    def convert_output(self, data: Any) -> Any:
        """The output in float32; as it is in full precision."""
        return data if self.precision.startswith("32") else super().convert_output(data)
