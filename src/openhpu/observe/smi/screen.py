"""The default table: 79 columns, in the form that programs read."""

from collections.abc import Sequence

from openhpu.observe.smi.facts import DRIVER_VERSION, SMI_VERSION
from openhpu.observe.smi.modules import Module

_RULE = "+" + "-" * 77 + "+"
_COLUMNS = "|" + "+".join(("-" * 31, "-" * 22, "-" * 22)) + "+"
_MIB = 1 << 20


def table(rows: Sequence[Module]) -> str:
    """The text, without a newline at its end."""
    lines = [
        _RULE,
        _header("HL-SMI Version:", SMI_VERSION),
        _header("Driver Version:", f"{DRIVER_VERSION}-openhpu"),
        _header("Nic Driver Version:", f"{DRIVER_VERSION}-openhpu"),
        _COLUMNS,
        "| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |",
        "|" + "+".join(("=" * 31, "=" * 22, "=" * 22)) + "|",
    ]
    for module in rows:
        lines += [*_module(module), _COLUMNS]
    lines += [
        "| Compute Processes:                                               AIP Memory |",
        "|  AIP       PID   Type   Process name                             Usage      |",
        "|" + "=" * 77 + "|",
        *(line for module in rows for line in _processes(module)),
        "+" + "=" * 77 + "+",
    ]
    return "\n".join(lines)


def _header(label: str, version: str) -> str:
    return f"| {label}{version:>{66 - len(label)}}{'':10}|"


def _module(module: Module) -> tuple[str, str]:
    product = module.product
    # Long totals take room from the next column, as published tables show it, and then from their own.
    width = min(7, 13 - len(str(module.total)))
    memory = f"{module.used:>{width}}MiB / {module.total:>5}MiB "
    first = f"|{module.index:>4}  {product.name:<18}{'N/A':>5}  | {module.bus_id:<16}{'N/A':>4} |{0:>20}  |"
    second = (
        f"| N/A {product.celsius:>4}C   N/A  {product.idle_watts:>4}W /{product.max_watts:>4}W |{memory}|"
        f"{module.percent_busy:>6}%{'N/A':>14}"
    )
    return first, f"{second:<78}|"


def _processes(module: Module) -> list[str]:
    found = [(str(p.pid), "C", p.command[:40], f"{-(-p.used // _MIB)}MiB") for p in module.processes]
    rows = found or [("N/A", "N/A", "N/A", "N/A")]
    return [f"|{module.index:>4}{pid:>11}   {kind:<4}   {name:<41}{usage:<11}|" for pid, kind, name, usage in rows]
