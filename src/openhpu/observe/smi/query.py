"""`-Q` (fields as CSV: fields.tsv), `-q` (everything, by section: sections.tsv) and `-L` (a list)."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from openhpu.observe.smi.facts import DRIVER_VERSION, FIRMWARE_VERSION
from openhpu.observe.smi.modules import Module
from openhpu.settings import tables


class Field(NamedTuple):
    """A row of fields.tsv: a name of `-Q`. `text`: its value, with the places of `_filled`; `unit` stands behind it."""

    name: str
    text: str
    unit: str = ""


class Line(NamedTuple):
    """A row of sections.tsv: a line of `-q`."""

    section: str
    label: str
    text: str


_FIELDS = {field.name: field for field in tables.beside(__file__, "fields.tsv", Field, unique="name")}
_SECTIONS = tables.beside(__file__, "sections.tsv", Line)
SECTIONS = tuple(dict.fromkeys(line.section for line in _SECTIONS))


class UnknownName(ValueError):
    """A field, format or section that does not exist; the text lists those that do."""


def csv(rows: Sequence[Module], fields: str, form: str) -> str:
    """The fields of each module; `form` is csv[,noheader][,nounits]."""
    names = [name.strip() for name in fields.split(",")]
    for name in names:
        if name not in _FIELDS:
            raise UnknownName(f"field {name!r} is not known; there are: {', '.join(_FIELDS)}")
    options = [word.strip() for word in form.split(",")]
    if options[0] != "csv" or not set(options[1:]) <= {"noheader", "nounits"}:
        raise UnknownName(f"format {form!r} is not known; expected csv[,noheader][,nounits]")
    lines = []
    if "noheader" not in options:
        lines.append(", ".join(f"{name} [{_FIELDS[name].unit}]" if _FIELDS[name].unit else name for name in names))
    for module in rows:
        cells = []
        for field in map(_FIELDS.__getitem__, names):
            unit = f" {field.unit}" if field.unit and "nounits" not in options else ""
            cells.append(_filled(field.text, module) + unit)
        lines.append(", ".join(cells))
    return "\n".join(lines)


def everything(rows: Sequence[Module], sections: str | None) -> str:
    """All that is known of each module, or the sections that are named."""
    chosen = [name.strip().upper() for name in sections.split(",")] if sections else list(SECTIONS)
    for name in chosen:
        if name not in SECTIONS:
            raise UnknownName(f"section {name!r} is not known; there are: {', '.join(SECTIONS)}")
    lines = [
        "================ HL-SMI LOG ================",
        "",
        _pair("Timestamp", datetime.now().strftime("%c")),
        _pair("Driver Version", f"{DRIVER_VERSION}-openhpu"),
        _pair("Attached AIPs", len(rows)),
        "A software device (OpenHPU): memory and utilization are measured; power, temperature, clocks and errors are",
        "constants.",
    ]
    for module in rows:
        lines += ["", f"[{module.index}] AIP {module.bus_id}"]
        for name in chosen:
            lines += [f"    {name.replace('_', ' ').title()}", *_section(module, name)]
    return "\n".join(lines)


def _section(module: Module, name: str) -> list[str]:
    lines = [line for line in _SECTIONS if line.section == name]
    return [f"        {_pair(line.label, _filled(line.text, module))}" for line in lines]


def _filled(text: str, module: Module) -> str:
    """A text of the tables, with the values of a module."""
    now = datetime.now().strftime("%a %b %e %H:%M:%S %Z %Y").replace("  ", " ")
    return text.format(m=module, now=now, driver=f"{DRIVER_VERSION}-openhpu", firmware=FIRMWARE_VERSION)


def listing(rows: Sequence[Module]) -> str:
    """The modules, one after the other."""
    lines = []
    for module in rows:
        lines.append(f"[{module.index}] AIP (accel{module.index}) {module.bus_id}")
        lines += _section(module, "PRODUCT")
        lines.append(f"        {_pair('Module status', 'Operational')}")
    return "\n".join(lines)


def _pair(name: str, value: object) -> str:
    return f"{name:<32}: {value}"
