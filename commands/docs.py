"""Tables in documents that come from tables of the code: `make docs` (`python -m commands.docs`) writes them.

Each stands in its page behind a comment with its name, `_BEGIN`, and before `_END`; the rest of the page is a text.
Of Gaudi's operators it also writes the types of their arguments (`stubs`).
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from commands import ROOT, stubs

_BEGIN = "<!-- {}: written by `make docs` -->\n\n"
_END = "\n\n<!-- end -->"
_FORM = re.compile(_BEGIN.format("(.*?)") + "(.*?)" + _END, re.DOTALL)


def _table(header: str, rows: Iterable[Iterable[str]]) -> str:
    names = header.split(", ")
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (names, ["---"] * len(names), *rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _environment() -> dict[str, str]:
    from openhpu.settings import ROWS

    ours = [row for row in ROWS if row.name.startswith("OPENHPU_")]
    found = {}
    for name, rows in (("ours", ours), ("Gaudi's", [row for row in ROWS if row.effective and row not in ours])):
        cells = [(_code(r.name), r.kind, r.show_default(), r.allowed(), r.when, r.meaning) for r in rows]
        found[name] = _table("Name, Type, Default, Allowed, Read at, Meaning", cells)
    idle = [(_code(r.name), r.kind, r.show_default(), r.allowed(), r.meaning) for r in ROWS if not r.effective]
    return found | {"without effect": _table("Name, Type, Default, Allowed, Meaning on Gaudi", idle)}


def _differences() -> dict[str, str]:
    from openhpu.observe.differences import DIFFERENCES

    rows = [(_code(r.kind), r.what, r.gaudi, r.here, r.strict, r.needs, r.source) for r in DIFFERENCES]
    header = "kind, a script does, a Gaudi, here, strict, a script needs there, source"
    return {"differences": _table(header, rows)}


def _gaudi_operators() -> dict[str, str]:
    import habana_frameworks.torch  # noqa: F401  # loads the device
    from openhpu.interface.gaudi_ops import namespace
    from openhpu.interface.gaudi_ops.not_built import REFUSED
    from openhpu.interface.gaudi_ops.registry import rows

    namespace.define()
    families: dict[str, list[tuple[str, str]]] = {}
    for row in rows():
        families.setdefault(row.function.partition(".")[0], []).append((_code(row.schema), row.made_of))
    found = {family: _table("operator, made of", operators) for family, operators in families.items()}
    return found | {"refused": _table("operator, reason", [(_code(name), why) for name, why in REFUSED.items()])}


def _migration() -> dict[str, str]:
    from openhpu.integration.migration.cuda_names import ROWS

    found = {}
    for source in dict.fromkeys(row.source for row in ROWS.values()):
        rows = [(_code(r.name), r.how, _code(r.counterpart), r.result) for r in ROWS.values() if r.source == source]
        found[source] = _table("CUDA name, how, counterpart, result", rows)
    return found


def _vendor_kernels() -> dict[str, str]:
    from openhpu.interface.custom_ops import vendor_families

    header = "family, dtypes, operands, params, computes, named by"
    rows = [
        (_code(f["name"]), f["dtypes"], _code(f["operands"]), _code(f["params"]), f["computes"], f["source"])
        for f in vendor_families()
    ]
    return {"families": _table(header, rows)}


PAGES: dict[str, Callable[[], dict[str, str]]] = {
    "environment.md": _environment,
    "differences.md": _differences,
    "gaudi-operators.md": _gaudi_operators,
    "migration.md": _migration,
    "vendor-kernels.md": _vendor_kernels,
}


def path_of(page: str) -> Path:
    """The file of a page."""
    return ROOT / "docs" / page


def updated(page: str) -> str:
    """The text of a page with its tables as they are now. ValueError where it lacks the place of one."""
    tables = PAGES[page]()
    text = path_of(page).read_text(encoding="utf-8")
    places = [found[1] for found in _FORM.finditer(text)]
    if sorted(places) != sorted(tables):
        raise ValueError(f"docs/{page} has places for the tables {places}; expected {list(tables)}")
    return _FORM.sub(lambda found: _BEGIN.format(found[1]) + tables[found[1]] + _END, text)


if __name__ == "__main__":
    for each in PAGES:
        path_of(each).write_text(updated(each), encoding="utf-8")
    stubs.PATH.write_text(stubs.text(), encoding="utf-8")
