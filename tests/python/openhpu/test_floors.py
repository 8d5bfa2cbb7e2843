"""The package's floors point one way: what a module imports lies on its own floor or below."""

import ast
from collections import Counter

import pytest

from commands import ROOT

PACKAGE = ROOT / "src" / "openhpu"
# From the bottom up.
FLOORS = ("settings", "observe", "compiler", "device", "capture", "interface", "integration", "testing")
LEVEL = {floor: level for level, floor in enumerate(FLOORS)}
# Above all floors: what scripts and commands import.
TOP = {"__init__", "__main__", "cli", "dynamo", "events", "hpex", "hpu"}
COMPILED = {"_C", "_machine"}  # the core; its loader is integration/compat.py
# Names that stand for a floor's own part of one matter: a report, an attention in each library's form.
SAME_KIND = {
    "__init__",
    "__main__",
    "arguments",
    "attention",
    "cli",
    "errors",
    "operators",
    "report",
    "rotary",
    "seeded",
    "summary",
    "tables",
    "user_kernels",
}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if "cores" not in path.parts)


def floor_of(name):
    return name.split(".")[1] if name.startswith("openhpu.") else None


def imported(path):
    """The modules of this package that a file imports, wherever in it, also for types only."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            if node.module == "openhpu":
                yield from (f"openhpu.{alias.name}" for alias in node.names)
            else:
                yield str(node.module)


def test_nothing_is_loose():
    assert {path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))} == {
        *FLOORS,
        *(f"{name}.py" for name in TOP),
    }


def test_every_folder_is_a_package():
    """Else it would be missing in the wheel."""
    assert not {path.parent.relative_to(PACKAGE) for path in modules() if not (path.parent / "__init__.py").is_file()}


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_point_down(floor):
    upward = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules()
        if path.relative_to(PACKAGE).parts[0] == floor
        for name in imported(path)
        if (other := floor_of(name)) is not None
        and not other.startswith("__")
        and other not in COMPILED
        and LEVEL.get(other, len(FLOORS)) > LEVEL[floor]
    ]
    assert not upward


def test_one_kind_of_contents_has_one_name():
    names = Counter(path.stem for path in modules() if path.parent != PACKAGE)
    assert {name for name, count in names.items() if count > 1} <= SAME_KIND
