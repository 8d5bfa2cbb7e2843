"""CPU fallback: which operators Gaudi has, which may fall back, and the log of those that do."""

from __future__ import annotations

import csv
from pathlib import Path

from openhpu import _C, settings

_TABLE = Path(__file__).parent / "data" / "gaudi-native-ops.csv"


# Gaudi runs these as operators of its own (hpu::optimizer_adamw and the like); scripts reach them by torch.optim.
_FUSED_OPTIMIZERS = tuple(
    f"_fused_{name}_{overload}" for name in ("adam", "adamw", "sgd", "adagrad") for overload in ("", ".tensor_lr")
)

# Gradient clipping calls it, where other devices take the norm of each tensor: foreach forms are chosen for hpu, too.
_FOREACH_NORM = ("_foreach_norm.Scalar",)


def native_ops(generation: str) -> list[tuple[str, str]]:
    """Rows (aten overload, dtypes) of `generation`.

    `dtypes` is "*" for every dtype of the device, names of scalar types separated by spaces, or "" for none.
    """
    with _TABLE.open(newline="", encoding="utf-8") as file:
        rows = [(row["aten_op"], row[generation]) for row in csv.DictReader(file)]
    norms = dict(rows)["linalg_vector_norm"]
    return rows + [(name, "*") for name in _FUSED_OPTIMIZERS] + [(name, norms) for name in _FOREACH_NORM]


def install() -> None:
    """Hand table and policy of the environment to the core, and start logging if the environment asks for it."""
    _C.set_native_ops(native_ops(settings.get("OPENHPU_GENERATION")))
    _C.set_fallback_policy(settings.get("PT_HPU_PLACE_ON_CPU"))
    from openhpu import logs

    logs.install()
