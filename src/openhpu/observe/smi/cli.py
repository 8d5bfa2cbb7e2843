"""The command `hl-smi`.

Exit codes: 0, also if no process uses a device; 1 for a function that a software device does not have, or an output
that can't be written; 2 for a wrong argument.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Sequence

from openhpu import settings
from openhpu.observe.smi import query
from openhpu.observe.smi.facts import FIRMWARE_VERSION, SMI_VERSION
from openhpu.observe.smi.modules import Module, modules
from openhpu.observe.smi.screen import table
from openhpu.settings.output import write_output

_SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the requested data. Returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.reset_aip or options.power_max is not None or options.power_limit is not None:
        print("hl-smi: a software device has nothing to reset and no power limit", file=sys.stderr)
        return 1
    show = _chosen(options)
    every = _interval(options)
    try:
        while True:
            write_output("hl-smi", show(_modules(options.device)))
            if every is None:
                return 0
            time.sleep(every)
    except (query.UnknownName, settings.SettingError) as error:
        print(f"hl-smi: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


def _interval(options: argparse.Namespace) -> float | None:
    """Seconds between two outputs; None: there is one."""
    if options.loop is not None:
        return float(options.loop)
    return None if options.loop_ms is None else options.loop_ms / 1e3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hl-smi",
        allow_abbrev=False,
        description="Devices of this machine, as the processes that use them show them (OpenHPU).",
    )
    add = parser.add_argument
    add("topic", nargs="?", choices=("topo",), help="topo -c: affinity of devices and cores")
    add("-c", action="store_true", help=argparse.SUPPRESS)
    add("-L", "--list-aips", action="store_true", help="list the devices")
    add("-i", "--device", metavar="BUS_ID", help="only the device with this bus id or index")
    add("--fw-versions", action="store_true", help="firmware versions")
    add("-r", "--reset-aip", action="store_true", help="not possible: nothing to reset")
    add("-p", "--power-max", metavar="W", help="not possible: no power limit")
    add("--power-limit", metavar="W", help=argparse.SUPPRESS)
    add("-q", "--query", action="store_true", help="all that is known, by section")
    add("-d", "--display", metavar="SECTION", help=f"with -q: {', '.join(query.SECTIONS)}")
    add("-l", "--loop", metavar="S", nargs="?", type=_positive, const=_SECONDS, help="again every S seconds (5)")
    add("-lms", "--loop-ms", metavar="MS", type=_positive, help="again every MS milliseconds")
    add("-D", action="store_true", help="accepted; there are no debug prints")
    add("-v", "--version", action="store_true", help="version")
    add("-Q", "--query-aip", metavar="FIELDS", help="fields as CSV: index,module_id,memory.used, ...")
    add("--query-row-replacement", action="store_true", help="replaced memory rows")
    add("-f", "--format", metavar="FORMAT", default="csv", help="csv[,noheader][,nounits]")
    add("-n", "--nic", metavar="link", choices=("link", "ports"), help="network ports")
    return parser


def _positive(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (value := float(text)) < 1e7:
            return value
    raise argparse.ArgumentTypeError(f"expected a number above 0 and below 10,000,000, got {text!r}")


def _chosen(options: argparse.Namespace) -> Callable[[list[Module]], str]:
    if options.version:
        return lambda rows: f"Habanalabs hl-smi/hlml version {SMI_VERSION} (OpenHPU)"
    if options.topic == "topo":
        return _topology
    if options.query_aip is not None:
        return lambda rows: query.csv(rows, options.query_aip, options.format)
    if options.list_aips:
        return query.listing
    if options.fw_versions:
        return lambda rows: "\n".join(
            f"[{m.index}] AIP {m.bus_id} fw-{FIRMWARE_VERSION} (none: software)" for m in rows
        )
    if options.query_row_replacement:
        return lambda rows: query.everything(rows, "ROW_REPLACEMENT")
    if options.nic is not None:
        return lambda rows: "\n".join(f"[{m.index}] AIP {m.bus_id} has no network ports (software)" for m in rows)
    if options.query or options.display is not None:
        return lambda rows: query.everything(rows, options.display)
    return table


def _topology(rows: list[Module]) -> str:
    return "\n".join(["modID   CPU Affinity   NUMA Affinity", *(f"{m.number:<8}all            all" for m in rows)])


def _modules(wanted: str | None) -> list[Module]:
    rows = modules()
    if wanted is None:
        return rows
    found = [row for row in rows if wanted in (row.bus_id, row.bus_id.removeprefix("0000:"), str(row.index))]
    if not found:
        raise query.UnknownName(f"there is no device {wanted!r}; there are: {', '.join(r.bus_id for r in rows)}")
    return found
