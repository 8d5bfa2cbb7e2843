"""The command `openhpu`."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from openhpu.settings.output import write_output

_EPILOG = "Exit code: the script's; 128 plus the signal's number if a signal ended it; 2 if it was not started."

_GROUP = "openhpu.commands"  # of entry points: subcommands of other distributions, functions of the arguments
# Subcommands of the distributions that live beside this one, each with the name of its distribution.
_BESIDE = {
    "port": "openhpu-port",
    "compare": "openhpu-port",
    "predict": "openhpu-predict",
    "replay": "openhpu-record",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand. Returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    others = {point.name: point for point in entry_points(group=_GROUP) if point.name not in _OWN}
    if given and given[0] in others:
        return int(others[given[0]].load()(given[1:]))
    missing = {name: distribution for name, distribution in _BESIDE.items() if name not in others}
    if given and given[0] in missing:
        return _failed(2, f"{given[0]}: {_not_installed(missing[given[0]])}")
    parser = argparse.ArgumentParser(prog="openhpu", description="Intel Gaudi's PyTorch stack in software.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in _OWN.values():
        add(commands)
    for name, point in others.items():
        commands.add_parser(name, help=f"of {point.dist.name if point.dist else point.value}", add_help=False)
    for name, distribution in missing.items():
        commands.add_parser(name, help=_not_installed(distribution), add_help=False)
    options = parser.parse_args(given)
    code: int = options.start(options)
    return code


_Commands = Any  # the object that argparse's add_subparsers returns has no public class


def _add_run(commands: _Commands) -> None:
    run = commands.add_parser(
        "run",
        help="run a script and report fallbacks, waits, recompilations and memory",
        usage="openhpu run [--mode eager|lazy] [--strict] [--check-graphs] [--predict DEVICE] "
        "[--report FILE] [--json] [--fail-on WHAT,...] (SCRIPT | -m MODULE | -- PROGRAM) [ARG ...]",
        epilog=_EPILOG,
    )
    run.add_argument("--mode", choices=("eager", "lazy"), help="sets PT_HPU_LAZY_MODE; default: as it is")
    run.add_argument("--strict", action="store_true", help="do what a Gaudi does: sets OPENHPU_STRICT=gaudi")
    run.add_argument(
        "--check-graphs",
        action="store_true",
        help="compare each replay of an HPU graph with the plain call: sets OPENHPU_CHECK_GRAPHS=1",
    )
    run.add_argument("--predict", metavar="DEVICE", default="", help="what a step would take: sets OPENHPU_PREDICT")
    run.add_argument("--report", metavar="FILE", help="write an HTML page; one per rank, its number in the name")
    run.add_argument(
        "--fail-on",
        metavar="WHAT",
        default="",
        help="exit with 3 if the script does one of: fallback, recompilation, read, shape, index, overflow, move, "
        "difference, capture, graph-check (which sets --check-graphs)",
    )
    run.add_argument("--json", action="store_true", help="print the report as the last line of stdout, as JSON")
    run.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    run.add_argument("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    run.set_defaults(start=_run, parser=run)


def _add_env(commands: _Commands) -> None:
    env = commands.add_parser("env", help="print the value of each environment variable, and its source")
    env.add_argument("--set", action="store_true", help="only those that are set")
    env.add_argument("--json", action="store_true", help="as JSON")
    env.set_defaults(start=_print_environment)


def _add_trace(commands: _Commands) -> None:
    trace = commands.add_parser(
        "trace",
        help="sum a trace up, or merge several into one",
        usage="openhpu trace FILE\n       openhpu trace merge FILE ... -o MERGED",
    )
    trace.add_argument("files", nargs="+", metavar="FILE", help="a trace, of torch.profiler or HABANA_PROFILE=1")
    trace.add_argument("-o", "--output", metavar="MERGED", help="merge: the file to write")
    trace.set_defaults(start=_trace)


def _add_calibrate(commands: _Commands) -> None:
    help_text = "measure which library computes matrix products faster, for later processes"
    commands.add_parser("calibrate", help=help_text).set_defaults(start=_calibrate)


# This distribution's subcommands, each with the function that adds its parser.
_OWN = {"run": _add_run, "env": _add_env, "trace": _add_trace, "calibrate": _add_calibrate}


def _run(options: argparse.Namespace) -> int:
    """Returns the script's exit code, or 2 if it was not started."""
    script = options.script if options.module is None else ["-m", *options.module]
    if script in ([], ["--"]):
        options.parser.error("no script was given")
    from openhpu.observe.insight import launch

    try:
        return launch.run(script, options)
    except launch.UsageError as error:
        return _failed(2, f"run: {error}")


def _not_installed(distribution: str) -> str:
    return f"of {distribution}, which is not installed; in a clone of OpenHPU: pip install ./{distribution}"


def _failed(code: int, why: str) -> int:
    print(f"openhpu {why}", file=sys.stderr)
    return code


def _trace(options: argparse.Namespace) -> int:
    """Returns 2 for a file that is not a trace or a wrong argument, 1 if the merged file can't be written."""
    import json
    from pathlib import Path

    from openhpu.observe.profiler import merge, reading, summary

    files: list[str] = options.files
    output: str | None = options.output
    merging = files[0] == "merge"
    try:
        if merging and (output is None or len(files) < 2):
            raise reading.TraceError("merge: give the traces, and -o with the file to write")
        if not merging and (output is not None or len(files) > 1):
            raise reading.TraceError("give one trace; several become one with: openhpu trace merge FILE ... -o MERGED")
        if not merging:
            write_output("openhpu trace", summary.of_file(Path(files[0])))
            return 0
        document = merge.merge([Path(file) for file in files[1:]])
    except reading.TraceError as error:
        return _failed(2, f"trace: {error}")
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return _failed(2, f"trace: an event of {', '.join(files)} is not one of a trace: {error!r}")
    try:
        Path(str(output)).write_text(json.dumps(document))
    except OSError as error:
        return _failed(1, f"trace: {output} can't be written: {error.strerror}")
    return 0


def _calibrate(_: argparse.Namespace) -> int:
    """Returns 1 if there is nothing to choose, or the file can't be written."""
    from openhpu.device import product_rule

    try:
        found = product_rule.calibrate()
    except (RuntimeError, OSError) as error:
        return _failed(1, f"calibrate: {error}")
    told = [*product_rule.described(found), f"Written to {product_rule.file()}, which later processes read."]
    write_output("openhpu calibrate", "\n".join(told))
    return 0


def _print_environment(options: argparse.Namespace) -> int:
    """Returns 1 if a value is not allowed: the device would refuse to load."""
    import json

    from openhpu.settings import in_force

    rows = in_force.in_force()
    chosen = [row._asdict() for row in rows if not options.set or row.state != "default"]
    invalid = int(any(row.state == "invalid" for row in rows))
    write_output(
        "openhpu env", json.dumps(chosen, indent=1) if options.json else in_force.table(rows, options.set), invalid
    )
    return invalid


if __name__ == "__main__":
    sys.exit(main())
