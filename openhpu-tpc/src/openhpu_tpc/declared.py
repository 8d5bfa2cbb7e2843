"""The names that the public header of TPC-C declares (`data/declared.txt`), and the page that gives each a state."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from openhpu.settings import tables
from openhpu_tpc import intrinsics

GENERATIONS = {"gaudi": 1, "gaudi2": 2, "gaudi3": 3}
_FILE = Path(__file__).parent / "data" / "declared.txt"
ERRORS = _FILE.with_name("errors.tsv")
_THERE = "there, without a test of its own"
_BRACES = re.compile(r"\{([^}]*)\}")


class Error(NamedTuple):
    """A row of ERRORS. `error`: the largest one, in units of the last place."""

    name: str
    error: str


def _expanded(pattern: str, sets: dict[str, str]) -> Iterator[str]:
    found = _BRACES.search(pattern)
    if not found:
        yield pattern
        return
    for word in sets.get(found.group(1), found.group(1)).split(","):
        yield from _expanded(pattern[: found.start()] + word + pattern[found.end() :], sets)


@cache
def declared() -> dict[str, str]:
    """Each name, with the only generation that has it (`goya`, `gaudi`), or empty for a name of every generation."""
    sets: dict[str, str] = {}
    names: dict[str, str] = {}
    for line in _FILE.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if " = " in line:
            name, _, words = line.partition(" = ")
            sets[name] = words
            continue
        only, _, pattern = line.rpartition(" ")
        for name in _expanded(pattern, sets):
            names[name] = only.removeprefix("@")
    return names


def lacking(name: str, generation: str) -> str:
    """Why a generation has no such intrinsic; empty if it has, or if the public header says nothing about it."""
    only = declared().get(name)
    if only in ("goya", "gaudi") and generation != only:
        return f"{generation} has no {name}; {'an older processor' if only == 'goya' else only} has"
    intrinsic = intrinsics.intrinsics().get(name)
    kinds = {each.name for each in (intrinsic.t, intrinsic.u) if each} if intrinsic else set()
    if GENERATIONS[generation] == 1 and kinds & {"f16", "f8", "h8"}:
        return f"{generation} has no {name}; its type is there from gaudi2 on"
    return ""


def state(name: str) -> str:
    """`implemented`, `there, without a test of its own` or `refused: reason`."""
    intrinsic = intrinsics.intrinsics().get(name)
    if intrinsic is None:
        return "refused: there is no intrinsic of this name"
    if intrinsic.refused:
        return f"refused: {intrinsic.refused}"
    return "implemented" if name in intrinsics.tested() else _THERE


@cache
def errors() -> dict[str, str]:
    """The largest error of each special function of float32, in units of the last place (`data/errors.tsv`)."""
    return dict(tables.read(ERRORS, Error, unique="name"))


def page() -> str:
    """The page of states, in Markdown."""
    states = {name: state(name) for name in sorted(declared())}
    counted = Counter(each.partition(":")[0] for each in states.values())
    others = {name: state(name) for name in sorted(set(intrinsics.intrinsics()) - set(states))}
    more = Counter(each.partition(":")[0] for each in others.values())
    lines = [
        "# Intrinsics of TPC-C",
        "",
        "`openhpu tpc intrinsics --page` writes this page. [Kernels in TPC-C](tpc.md#intrinsics) explains the states:",
        "",
        "- *implemented*: a test calls it on every lane, with income, predicate and polarity, and compares it with a",
        "  second definition;",
        "- *there*: it works without a test that compares it so;",
        "- *refused*: a kernel that calls it is not built, and the error gives the reason.",
        "",
        "| names | implemented | there, without a test of its own | refused | all |",
        "| --- | --- | --- | --- | --- |",
        _row("declared by the public header", counted),
        _row("of later generations, and special functions", more),
        "",
        "## Errors of special functions",
        "",
        "The largest error of float32 against float64, in units of the last place, over the range that a test takes.",
        "The last bits may differ from a Gaudi's.",
        "",
        "| name | error |",
        "| --- | --- |",
        *(f"| `{name}` | {error} |" for name, error in errors().items()),
        "",
        "## Declared by the public header",
        "",
        *_table(states),
        "",
        "## Of later generations, and special functions",
        "",
        *_table(others),
    ]
    return "\n".join(lines) + "\n"


def _row(title: str, counted: Counter[str]) -> str:
    numbers = [counted[each] for each in ("implemented", _THERE, "refused")]
    return f"| {title} | {' | '.join(map(str, numbers))} | {sum(numbers)} |"


_CONTAINER = re.compile(r"^convert_(?P<type>[a-z]+(?:64|128|256|512))_to_(?P<to>[a-z]+\d+)$")
_FORM = re.compile(r"^(?P<head>[svi]_)(?P<type>f32|bf16|f16|f8|h8|[iu](?:32|16|8)|i1)(?P<rest>_.*)$")


def _table(states: dict[str, str]) -> list[str]:
    """A row for the names that differ only in their type or in the kind of the predicate."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name, each in states.items():
        container = _CONTAINER.match(name)
        if container:
            rows.setdefault((f"convert_T_to_{container['to']}", each), []).append(container["type"])
            continue
        parts = _FORM.match(name)
        common, kind = (f"{parts['head']}T{parts['rest']}", parts["type"]) if parts else (name, "")
        rows.setdefault((common, each), []).append(kind)
    lines = ["| name | T | state |", "| --- | --- | --- |"]
    for (name, each), kinds in sorted(rows.items()):
        lines.append(f"| `{name}` | {' '.join(kinds)} | {each} |")
    return lines
