"""CPU fallback: which operators Gaudi has, which may fall back, and the log of those that do."""

from pathlib import Path
from typing import Literal, NamedTuple

from openhpu import _C, settings
from openhpu.settings import tables

_DATA = Path(__file__).parent / "data"
_TABLE = _DATA / "gaudi-native-ops.csv"
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


class Native(NamedTuple):
    """A row of Gaudi's table of native operators: an overload, and its dtypes in each generation."""

    aten_op: str
    gaudi: str
    gaudi2: str
    gaudi3: str


class Added(NamedTuple):
    """An operator that this table leaves out. `dtypes`: `*`, those of another operator (=name), or more (+names)."""

    operator: str
    dtypes: str
    why: str


Answer = Literal["Yes", "No"]


class Supported(NamedTuple):
    """A row of the published table. `kind`: the module or class that has the operator."""

    operator: str
    fp32: Answer
    bf16: Answer
    fp16: Answer
    fp8: Answer
    int64: Answer
    int32: Answer
    int16: Answer
    int8: Answer
    bool: Answer
    kind: str


def native_ops(generation: str) -> dict[str, str]:
    """The dtypes of each aten overload in `generation`: names of scalar types separated by spaces, or "" for none.

    Forms and overloads that have no row are native where another form or overload of the same operator is; doubles are
    where floats are, 64-bit integers where 32-bit ones are.
    """
    rows = [(row.aten_op, getattr(row, generation)) for row in tables.read(_TABLE, Native)]
    known = dict(rows)
    added = [(row.operator, row.dtypes) for row in tables.read(_ADDED, Added)]
    further = {name: dtypes.replace("+", " ") for name, dtypes in added if dtypes[0] == "+"}
    rows += [(name, known.get(dtypes[1:], dtypes)) for name, dtypes in added if dtypes[0] != "+"]
    of_device = {"*": _DEVICE_DTYPES[generation]}
    return {name: of_device.get(dtypes, dtypes) + further.get(name.partition(".")[0], "") for name, dtypes in rows}


def integer_ops() -> dict[str, str]:
    """The integers with which Gaudi computes each operator, whether PyTorch does or not."""
    found: dict[str, set[str]] = {}
    for row in tables.read(SUPPORT_TABLE, Supported):
        dtypes = {name for column, name in _INTEGERS.items() if getattr(row, column) == "Yes"}
        for name in (row.operator, *_MADE_OF.get(row.operator, ())):
            if dtypes:
                found.setdefault(name, set()).update(dtypes)
    return {name: " ".join(sorted(dtypes)) for name, dtypes in found.items()}


def _of_core(generation: str) -> tuple[dict[str, str], dict[str, str]]:
    """Both, as the core gets them. They are kept: dicts of texts are nothing that Python's garbage collector counts,
    and the rows of the tables would be thousands of objects in the first allocation of a script."""

    def compute() -> tuple[dict[str, str], dict[str, str]]:
        return native_ops(generation), integer_ops()

    code = Path(__file__)
    return tables.derived(code, [_TABLE, _ADDED, SUPPORT_TABLE, code], compute, generation)


def install() -> None:
    """Hand table and policy of the environment to the core, and start logging if the environment asks for it."""
    native, integers = _of_core(settings.get("OPENHPU_GENERATION"))
    _C.set_native_ops(list(native.items()))
    _C.set_integer_ops(list(integers.items()))
    _C.set_fallback_policy(settings.get("PT_HPU_PLACE_ON_CPU"))
    from openhpu.observe import logs

    logs.install()
