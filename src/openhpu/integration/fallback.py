"""CPU fallback: which operators Gaudi has, which may fall back, and the log of those that do."""

import csv
from pathlib import Path

from openhpu import _C, settings

_DATA = Path(__file__).parent / "data"
_TABLE = _DATA / "gaudi-native-ops.csv"
# Operators that this table leaves out, and why: with dtypes, with those of another operator (=), or with more (+).
_ADDED = _DATA / "gaudi-native-ops-added.tsv"
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

# The operators that PyTorch makes an operator of.
_MADE_OF = {"norm": ("linalg_vector_norm",)}


def native_ops(generation: str) -> list[tuple[str, str]]:
    """Rows (aten overload, dtypes) of `generation`: names of scalar types separated by spaces, or "" for none.

    Forms and overloads that have no row are native where another form or overload of the same operator is; doubles are
    where floats are, 64-bit integers where 32-bit ones are.
    """
    with _TABLE.open(newline="", encoding="utf-8") as file:
        rows = [(row["aten_op"], row[generation]) for row in csv.DictReader(file)]
    known = dict(rows)
    with _ADDED.open(newline="", encoding="utf-8") as file:
        added = [(row["operator"], row["dtypes"]) for row in csv.DictReader(file, delimiter="\t")]
    further = {name: dtypes.replace("+", " ") for name, dtypes in added if dtypes[0] == "+"}
    rows += [(name, known.get(dtypes[1:], dtypes)) for name, dtypes in added if dtypes[0] != "+"]
    of_device = {"*": _DEVICE_DTYPES[generation]}
    return [(name, of_device.get(dtypes, dtypes) + further.get(name.partition(".")[0], "")) for name, dtypes in rows]


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
