"""Which precisions there are on hpu, for Trainer's and Fabric's plugins alike."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from habana_frameworks.torch.hpex.experimental import transformer_engine
from lightning_habana import roots
from lightning_habana.utils import resources

_AUTOCAST = {"bf16": torch.bfloat16, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
# What the argument `precision` of Trainer and Fabric may say, in Lightning's words.
BY_NAME = ("32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true")


class HPUAutocast:
    """What a precision plugin computes its steps under: torch.autocast("hpu"), fp8_autocast, or nothing."""

    recipe: Any = None  # transformer_engine's, for fp8
    allowed: tuple[str, ...]
    trainer = "Trainer"

    def __init__(self, precision: str = "32-true", device: str = "hpu") -> None:
        if precision not in self.allowed:
            raise ValueError(
                f"`{self.trainer}(accelerator='hpu', precision={precision!r})` is not supported. `precision` must be "
                f"one of: {self.allowed}."
            )
        if torch.device(device).type != "hpu":
            raise ValueError(f"{type(self).__name__}(device={device!r}): expected 'hpu'")
        if precision == "fp8":
            _require(resources.is_fp8_available(), precision)
        if precision in ("16-mixed", "16-true"):
            _require(resources.is_fp16_available(), precision)
        self.precision = precision
        self.device = device
        self.scaler = torch.amp.GradScaler("hpu") if precision == "16-mixed" else None
        self._desired_input_dtype = _AUTOCAST.get(precision, torch.get_default_dtype())

    def autocast_context_manager(self) -> AbstractContextManager[Any]:
        """torch.autocast("hpu") in the dtype of a mixed precision; fp8_autocast for fp8."""
        if self.precision == "fp8":
            return transformer_engine.fp8_autocast(enabled=True, fp8_recipe=self.recipe)
        dtype = _AUTOCAST.get(self.precision)
        # Weights change between the steps of one context, so that casts of them are not kept.
        return nullcontext() if dtype is None else torch.autocast("hpu", dtype=dtype, cache_enabled=False)

    def forward_context(self) -> AbstractContextManager[Any]:
        """The same."""
        return self.autocast_context_manager()


def _require(available: tuple[bool, str], precision: str) -> None:
    if not available[0]:
        raise NotImplementedError(f"{precision} not supported: {available[1]}")


def check_plugin(plugin: Any) -> None:
    """Raise MisconfigurationException for a plugin that would autocast on another device."""
    device = getattr(plugin, "device", None)
    if isinstance(device, str | torch.device) and torch.device(device).type != "hpu":
        raise roots.MisconfigurationException(
            f"{type(plugin).__name__}(device={str(device)!r}) would autocast nothing on hpu: expected device='hpu'. "
            "Pass precision='bf16-mixed' instead of a plugin, or HPUPrecisionPlugin('bf16-mixed')."
        )
