"""`-Q` (fields as CSV), `-q` (everything, by section) and `-L` (a list)."""

from collections.abc import Callable, Sequence
from datetime import datetime

from openhpu.observe.smi.facts import DRIVER_VERSION, FIRMWARE_VERSION
from openhpu.observe.smi.modules import Module

_UNIT = {
    "temperature.aip": "C", "utilization.aip": "%", "memory.total": "MiB", "memory.free": "MiB", "memory.used": "MiB",
    "power.draw": "W", "power.max": "W",
}  # fmt: skip

_FIELDS: dict[str, Callable[[Module], object]] = {
    "timestamp": lambda m: datetime.now().strftime("%a %b %e %H:%M:%S %Z %Y").replace("  ", " "),
    "name": lambda m: m.product.name,
    "bus_id": lambda m: m.bus_id,
    "driver_version": lambda m: f"{DRIVER_VERSION}-openhpu",
    "temperature.aip": lambda m: m.product.celsius,
    "module_id": lambda m: m.number,
    "utilization.aip": lambda m: m.percent_busy,
    "memory.total": lambda m: m.total,
    "memory.free": lambda m: m.total - m.used,
    "memory.used": lambda m: m.used,
    "index": lambda m: m.index,
    "serial": lambda m: m.serial,
    "uuid": lambda m: m.uuid,
    "power.draw": lambda m: m.product.idle_watts,
    "power.max": lambda m: m.product.max_watts,
    "ecc.errors.uncorrected.aggregate.total": lambda m: 0,
    "ecc.errors.uncorrected.volatile.total": lambda m: 0,
    "ecc.errors.corrected.aggregate.total": lambda m: 0,
    "ecc.errors.corrected.volatile.total": lambda m: 0,
    "ecc.errors.dram.aggregate.total": lambda m: 0,
    "ecc.errors.dram.volatile.total": lambda m: 0,
    "ecc.errors.dram-corrected.aggregate.total": lambda m: 0,
    "ecc.mode.current": lambda m: "N/A",
    "ecc.mode.pending": lambda m: "N/A",
    "stats.violation.power": lambda m: 0,
    "stats.violation.thermal": lambda m: 0,
}

SECTIONS = ("PRODUCT", "POWER", "CLOCK", "TEMPERATURE", "FAN", "BUS", "MEMORY", "NET", "ROW_REPLACEMENT")


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
        lines.append(", ".join(f"{name} [{_UNIT[name]}]" if name in _UNIT else name for name in names))
    for module in rows:
        cells = []
        for name in names:
            unit = f" {_UNIT[name]}" if name in _UNIT and "nounits" not in options else ""
            cells.append(f"{_FIELDS[name](module)}{unit}")
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
    product = module.product
    content: dict[str, list[tuple[str, object]]] = {
        "PRODUCT": [
            ("Product Name", product.name), ("Serial Number", module.serial), ("UUID", module.uuid),
            ("Module ID", module.number), ("Firmware [SPI] Version", f"fw-{FIRMWARE_VERSION} (none: software)"),
        ],
        "POWER": [
            ("Power Draw", f"{product.idle_watts} W (constant)"), ("Power Limit", f"{product.max_watts} W (constant)"),
        ],
        "CLOCK": [("SOC", "N/A")],
        "TEMPERATURE": [("AIP Current Temp", f"{product.celsius} C (constant)")],
        "FAN": [("Fan Speed", "N/A")],
        "BUS": [("Bus Id", f"{module.bus_id} (in form only)"), ("Link Width", "N/A")],
        "MEMORY": [
            ("Total", f"{module.total} MiB"), ("Used", f"{module.used} MiB"),
            ("Free", f"{module.total - module.used} MiB"), ("Utilization", f"{module.percent_busy} %"),
        ],
        "NET": [("Ports", "none: software")],
        "ROW_REPLACEMENT": [("Rows Replaced", 0), ("Pending", "No")],
    }  # fmt: skip
    return [f"        {_pair(key, value)}" for key, value in content[name]]


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
