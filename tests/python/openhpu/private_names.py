"""What the project uses of torch's private names, which the next PyTorch need not have.

Each row of private_names.tsv: a name, the number of places that use it, and its parameters (`name=`: with a default)
in the oldest PyTorch that is supported; then, where newer releases have others, `2.15: ` and those, between ` | `.
`TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -m tests.python.openhpu.private_names` writes it anew, without our patches; of
a newer PyTorch only what differs.
"""

import ast
import enum
import importlib
import inspect
import json
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from openhpu.integration import compat
from openhpu.settings import tables

OLDEST = "2.13"
ROOT = Path(__file__).parents[3]
DISTRIBUTIONS = ("lightning-habana", "openhpu-predict", "openhpu-port", "openhpu-tpc", "openhpu-record")
SOURCES = (ROOT / "src", *(ROOT / name / "src" for name in DISTRIBUTIONS))
TABLE = Path(__file__).with_suffix(".tsv")


def used() -> Counter[str]:
    """Private names of torch in the sources, and how often each is imported or named."""
    found: Counter[str] = Counter()
    for folder in SOURCES:
        for path in folder.rglob("*.py"):
            found.update(_names(ast.parse(path.read_text())))
    return found


def _names(tree: ast.AST) -> Iterator[str]:
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    inner = {node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and node not in inner:
            names = [_dotted(node, imported)]
        elif isinstance(node, ast.Call) and _dotted(node.func, {}) in ("mock.patch.object", "_around", "_patch"):
            owner, name, *_ = node.args
            names = [f"{_dotted(owner, imported)}.{name.value}"] if isinstance(name, ast.Constant) else []
        elif isinstance(node, ast.Call) and _dotted(node.func, {}) == "mock.patch.multiple":
            names = [f"{_dotted(node.args[0], imported)}.{keyword.arg}" for keyword in node.keywords if keyword.arg]
        yield from (_static(name) for name in names if _is_private(name))


def _static(name: str) -> str:
    """Without what is there only while Inductor compiles."""
    handlers = "torch._inductor.virtualized.V"
    return handlers if name.startswith(handlers + ".") else name


def _dotted(node: ast.expr, imported: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, imported)}.{node.attr}"
    return imported.get(node.id, node.id) if isinstance(node, ast.Name) else "?"


def _is_private(name: str) -> bool:
    first, *rest = name.split(".")
    # Operators have schemas, which other tests hold; torch.hpu is ours.
    return (
        first == "torch"
        and rest[:1] not in (["ops"], ["hpu"])
        and any(part.startswith("_") and not part.endswith("__") for part in rest)
    )


def parameters(name: str) -> str:
    """Of a function or class; "module" of a module; "" of what has none, and of an enumeration, whose parameters are
    Python's. AttributeError where it is missing."""
    value = pkgutil.resolve_name(name)
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return ""
    try:
        taken = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return ", ".join(f"{stars.get(p.kind, '')}{p.name}{'' if p.default is p.empty else '='}" for p in taken)


def _parameters_or_error(name: str) -> str:
    try:
        return parameters(name)
    except AttributeError as error:
        return str(error)


class Line(NamedTuple):
    """A row of the file."""

    name: str
    uses: int
    parameters: str = ""
    newer: str = ""


_BETWEEN = " | "  # releases


class Row(NamedTuple):
    number: int  # of uses
    taken: dict[str, str]  # parameters: of the oldest release, and of each that has others

    def of(self, release: str) -> str:
        return self.taken.get(release, self.taken[OLDEST])


def table() -> dict[str, Row]:
    """The checked-in table."""
    rows = {}
    for line in tables.read(TABLE, Line, unique="name"):
        others = line.newer.split(_BETWEEN) if line.newer else []
        rows[line.name] = Row(line.uses, {OLDEST: line.parameters, **dict(other.split(": ", 1) for other in others)})
    return rows


def installed() -> str:
    return compat.release(importlib.import_module("torch").__version__)


def renewed() -> Iterator[Line]:
    """The table's rows, with what the sources use and the installed PyTorch has."""
    before, release = table(), installed()
    for name, number in sorted(used().items()):
        now = parameters(name)
        taken = {OLDEST: now} | (before[name].taken if name in before else {})
        taken |= {release: now}
        others = [f"{at}: {told}" for at, told in sorted(taken.items()) if at != OLDEST and told != taken[OLDEST]]
        yield Line(name, number, taken[OLDEST], _BETWEEN.join(others))


if __name__ == "__main__":
    importlib.import_module("torch._inductor.compile_fx")  # its parts import each other in this order
    if "--parameters" in sys.argv:
        print(json.dumps({name: _parameters_or_error(name) for name in table()}))
        sys.exit()
    TABLE.write_text(tables.text_of(Line, list(renewed())))
