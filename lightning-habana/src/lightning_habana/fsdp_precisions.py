"""Differences on hpu in the precision plugins of FSDP, for Trainer and Fabric."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.distributed.fsdp import MixedPrecision
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from lightning_habana import roots


class HPUShardedAutocast(roots.Mixin):
    """Autocast and gradient scaler of hpu, and one meaning of "bf16-mixed" in every version of Lightning.

    Parameters and gradients stay float32, as without FSDP; gradients are reduced in the lower precision.
    """

    _SAME = {"32": "32-true", "bf16": "bf16-mixed"}  # noqa: RUF012

    def __init__(
        self, precision: str = "32-true", device: str = "hpu", recipe: Any = None, replace_layers: bool = False
    ) -> None:
        if torch.device(device).type != "hpu":
            raise ValueError(f"{type(self).__name__}(device={device!r}): expected 'hpu'")
        if recipe is not None or replace_layers:
            raise NotImplementedError(
                f"{type(self).__name__}(recipe=..., replace_layers=...): this version has no float8 with FSDP"
            )
        precision = self._SAME.get(precision, precision)
        # Lightning's makes a scaler of CUDA's for float16, which warns.
        super().__init__("bf16-mixed" if precision == "16-mixed" else precision)
        self.precision = precision
        if precision == "16-mixed":
            self.scaler = ShardedGradScaler("hpu")
        if precision.endswith("-mixed"):
            self._desired_input_dtype = torch.float32

    @property
    def mixed_precision_config(self) -> MixedPrecision:
        """What FullyShardedDataParallel is told."""
        if not self.precision.endswith("-mixed"):
            return super().mixed_precision_config  # type: ignore[no-any-return]
        dtype = self._autocast_dtype()
        return MixedPrecision(param_dtype=torch.float32, reduce_dtype=dtype, buffer_dtype=dtype)

    def forward_context(self) -> AbstractContextManager[Any]:
        """torch.autocast("hpu") in a mixed precision; else the dtype of new tensors."""
        if self.precision.endswith("-mixed"):
            return torch.autocast("hpu", dtype=self._autocast_dtype())
        return super().forward_context()  # type: ignore[no-any-return]

    def _autocast_dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.precision == "bf16-mixed" else torch.float16
