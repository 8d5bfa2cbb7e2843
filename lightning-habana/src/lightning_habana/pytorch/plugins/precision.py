"""Trainer's precision on hpu."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

from lightning_habana import roots
from lightning_habana.precisions import HPUAutocast


class HPUPrecisionPlugin(HPUAutocast, roots.pytorch("plugins.precision").MixedPrecision):  # type: ignore[misc]
    """Steps of a mixed precision run under torch.autocast("hpu"); float16 with a gradient scaler.

    `precision`: "32-true" or "32" (nothing is cast), "bf16-mixed" or "bf16", "16-mixed". Raises ValueError for others,
    NotImplementedError for "fp8", and for "16-mixed" on a Gaudi of the first generation.
    """

    allowed = ("32", "32-true", "bf16", "bf16-mixed", "fp8", "16-mixed")

    @contextmanager
    def forward_context(self) -> Generator[None, None, None]:  # type: ignore[override]
        """What a step runs under."""
        with self.autocast_context_manager():
            yield

    def convert_modules(
        self,
        module: torch.nn.Module,
        inference: bool = False,
        replace_layers: bool = False,
        recipe: Any = None,
        quant: Any = True,
        fp8_data_path: str | None = None,
    ) -> torch.nn.Module:
        """The module with float8 layers: only with precision "fp8", which this version does not have."""
        raise AssertionError(f"convert_modules is for precision 'fp8', found {self.precision!r}")
