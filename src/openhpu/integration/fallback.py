"""CPU fallback: which operators Gaudi has, which may fall back, and the log of those that do."""

from __future__ import annotations

import csv
from pathlib import Path

from openhpu import _C, settings

_DATA = Path(__file__).parent / "data"
_TABLE = _DATA / "gaudi-native-ops.csv"
# Gaudi's published table of operators, by the names that scripts use, and of their dtypes.
SUPPORT_TABLE = _DATA / "gaudi-operator-support.csv"

# The meaning of "*": every dtype of the device.
_COMMON = "Float BFloat16 Long Int Short Char Byte Bool"
_DEVICE_DTYPES = {
    "gaudi": f"{_COMMON} Half",
    "gaudi2": f"{_COMMON} Half Float8_e5m2 Float8_e4m3fn",
    "gaudi3": f"{_COMMON} Half Float8_e5m2 Float8_e4m3fn",
}
# The column of the other table with the integers, and their names in this one.
_INTEGERS = {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "bool": "Bool"}

# Gaudi runs these as operators of its own (hpu::optimizer_adamw and the like); scripts reach them by torch.optim.
_FUSED_OPTIMIZERS = tuple(
    f"_fused_{name}_{overload}" for name in ("adam", "adamw", "sgd", "adagrad") for overload in ("", ".tensor_lr")
)

# Gradient clipping calls it, where other devices take the norm of each tensor: foreach forms are chosen for hpu, too.
_FOREACH_NORM = ("_foreach_norm.Scalar",)

# Bags of embeddings, which the table of operators names, and the one of their parts does not.
_EMBEDDING_BAGS = (
    "_embedding_bag",
    "_embedding_bag_forward_only",
    "_embedding_bag_backward",
    "_embedding_bag_dense_backward",
    "_embedding_bag_per_sample_weights_backward",
)

_COMPLEX = " ComplexFloat ComplexDouble"
# Dtypes that Gaudi's table of forms leaves out for some forms of an operator. mul.Scalar and _foreach_floor have all;
# PyTorch hands numbers to mul.Tensor. The forms of add that are not in place have all, those in place a list.
_FURTHER_DTYPES = {
    "floor_divide": " Half",
    "floor_divide_": " Half",
    "add": _COMPLEX,
    "mul": _COMPLEX,
    "mul_": _COMPLEX,
    "_foreach_floor": " Half Short Char Byte",
    "_foreach_floor_": " Half Short Char Byte",
}

# The operators that PyTorch makes an operator of.
_MADE_OF = {"norm": ("linalg_vector_norm",)}

# Of interpolate's mode nearest-exact the table names one dimension, of its mode nearest all three.
_NEAREST_EXACT = tuple(
    f"_upsample_nearest_exact{n}d{form}" for n in (2, 3) for form in (".out", "_backward.grad_input")
)


def native_ops(generation: str) -> list[tuple[str, str]]:
    """Rows (aten overload, dtypes) of `generation`: names of scalar types separated by spaces, or "" for none.

    Forms and overloads that have no row are native where another form or overload of the same operator is; doubles are
    where floats are, 64-bit integers where 32-bit ones are.
    """
    with _TABLE.open(newline="", encoding="utf-8") as file:
        rows = [(row["aten_op"], row[generation]) for row in csv.DictReader(file)]
    known = dict(rows)
    rows += [(name, "*") for name in (*_FUSED_OPTIMIZERS, *_NEAREST_EXACT)]
    rows += [(name, known["linalg_vector_norm"]) for name in _FOREACH_NORM]
    rows += [(name, known["embedding_dense_backward"]) for name in _EMBEDDING_BAGS]
    return [
        (
            name,
            (_DEVICE_DTYPES[generation] if dtypes == "*" else dtypes) + _FURTHER_DTYPES.get(name.partition(".")[0], ""),
        )
        for name, dtypes in rows
    ]


def integer_ops() -> list[tuple[str, str]]:
    """Rows (operator, dtypes): the integers with which Gaudi computes, whether PyTorch does or not."""
    found: dict[str, set[str]] = {}
    with SUPPORT_TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            dtypes = {name for column, name in _INTEGERS.items() if row[column] == "Yes"}
            for name in (row["operator"], *_MADE_OF.get(row["operator"], ())):
                if dtypes:
                    found.setdefault(name, set()).update(dtypes)
    return [(name, " ".join(sorted(dtypes))) for name, dtypes in found.items()]


def install() -> None:
    """Hand table and policy of the environment to the core, and start logging if the environment asks for it."""
    _C.set_native_ops(native_ops(settings.get("OPENHPU_GENERATION")))
    _C.set_integer_ops(integer_ops())
    _C.set_fallback_policy(settings.get("PT_HPU_PLACE_ON_CPU"))
    from openhpu.observe import logs

    logs.install()
