"""Autocast on hpu: which operators run in lower precision, in float32, or in the widest of their inputs' dtypes."""

from __future__ import annotations

from openhpu import _C


def install() -> None:
    """Hand the lists to the core."""
    _C.register_autocast(["matmul", "linear"], "lower_precision")
