"""8-bit floats in recipes: operators on them compute in float32, as Inductor promotes 8-bit floats with nothing."""

from collections.abc import Callable
from typing import Any

import torch

WIDER = dict.fromkeys((torch.float8_e5m2, torch.float8_e4m3fn), torch.float32)
# Their kernels want 8-bit floats.
TAKE_FLOAT8 = frozenset({"aten::_scaled_mm", "aten::_scaled_mm.out"})


def decompositions(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Those of `table`, and operators that writes into parts of tensors become, which no recorded call is."""
    aten = torch.ops.aten
    scatters = (aten.slice_scatter, aten.select_scatter, aten.diagonal_scatter, aten.as_strided_scatter)
    return table | {op.default: _widened(op.default, table.get(op.default)) for op in scatters}


def _widened(op: Any, otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    def scatter(x: torch.Tensor, source: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        wider = WIDER.get(x.dtype)
        if wider is not None:
            return op(x.to(wider), source.to(wider), *args, **kwargs).to(x.dtype)
        return NotImplemented if otherwise is None else otherwise(x, source, *args, **kwargs)

    return scatter
