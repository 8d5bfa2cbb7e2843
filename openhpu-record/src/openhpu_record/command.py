"""`gaudi-record`: records a script, or the calls of a table (`probe`), into a zip that can be sent."""

import argparse
import datetime
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from openhpu_record import children
from openhpu_record.errors import RecordError

_LAZY = {"eager": "0", "lazy": "1"}
_MOST_PROBE = 100 << 20  # bytes of a probe's folder, before it is packed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code: the script's, or 2 if nothing was recorded."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parts = {"probe": _probe, "pack": _pack, "show": _show}
    try:
        if given and given[0] in parts:
            return parts[given[0]](given[1:])
        return _script(given)
    except RecordError as error:
        print(f"gaudi-record: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gaudi-record",
        usage="gaudi-record [OPTION ...] SCRIPT [ARG ...]\n       gaudi-record probe | pack | show",
        description="Record what a script computes on the device.",
        epilog="Exit code: the script's; 128 plus the signal's number if a signal ended it.",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: SCRIPT-DATE.zip")
    parser.add_argument("--device", choices=("auto", "hpu", "cpu"), default="auto", help="default: hpu if there is one")
    parser.add_argument("--steps", default="2", metavar="N,...", help="the steps to record, from 0 on; default: 2")
    parser.add_argument("--every", type=int, metavar="N", help="record each N-th step instead")
    parser.add_argument("--with-inputs", action="store_true", help="keep inputs, weights among them (eager mode)")
    parser.add_argument("--most-bytes", type=int, default=200 << 20, help="of the recording; default: 200 MiB")
    parser.add_argument(
        "--after", type=float, default=120.0, metavar="SECONDS", help="for the calls with made inputs; default: 120"
    )
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("rest", metavar="ARG", nargs=argparse.REMAINDER)
    return parser


def _script(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if not Path(options.script).is_file():
        raise RecordError(f"there is no script {options.script!r}; expected a file")
    if options.every is not None and options.every < 1:
        raise RecordError(f"--every is {options.every}; expected 1 or more")
    if options.most_bytes < 1 or not options.after >= 0:
        raise RecordError("expected --most-bytes of 1 or more, and --after of 0 or more")
    try:
        steps = sorted({int(one) for one in options.steps.split(",")})
    except ValueError:
        steps = [-1]
    if steps[0] < 0:
        raise RecordError(f"--steps is {options.steps!r}; expected numbers of 0 or more, as 2,10")
    output, folder = _places(options.output, Path(options.script).stem)
    asked = {
        "folder": str(folder),
        "device": options.device,
        "steps": steps,
        "every": options.every,
        "with_inputs": options.with_inputs,
        "most_bytes": options.most_bytes,
        "after": options.after,
    }
    code = children.python(["-m", "openhpu_record.worker", json.dumps(asked), options.script, *options.rest])
    why = "" if code == 0 else _why(code)
    _finish(folder, output, code, why)
    return code if code is not None and code >= 0 else 128 - (code or 0)


def _why(code: int | None) -> str:
    if code is None:
        return "its time was over"
    return f"the signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _places(output: Path | None, name: str) -> tuple[Path, Path]:
    """The file to write, and the folder that grows into it. Raises RecordError."""
    now = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    rank = f"-rank{os.environ['RANK']}" if "RANK" in os.environ else ""
    target = output or Path(f"{name}{rank}-{now}.zip")
    if not target.parent.is_dir():
        raise RecordError(f"there is no folder {str(target.parent)!r} to write into")
    folder = target.with_name(f"{target.name}.part")
    if folder.exists():
        raise RecordError(
            f"{folder} is left of an earlier recording; `gaudi-record pack {folder}` makes a file of it, or remove it"
        )
    if not os.access(target.parent, os.W_OK):
        raise RecordError(f"the folder {str(target.parent)!r} can't be written")
    return target, folder


def _finish(folder: Path, output: Path, code: int | None, why: str) -> None:
    from openhpu_record.writing import pack

    if not folder.exists():
        raise RecordError(f"nothing was recorded: {why or 'the script did not import torch'}")
    pack(folder, output, {"code": code, "why": why})
    print(
        f"gaudi-record: {output} ({output.stat().st_size:,} bytes){'; ended by ' + why if why else ''}", file=sys.stderr
    )


def _probe(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="gaudi-record probe", description="Record the calls of a table; no script.")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: probe-DATE.zip")
    parser.add_argument("--device", choices=("auto", "hpu", "cpu"), default="auto", help="default: hpu if there is one")
    parser.add_argument("--modes", metavar="MODE,...", help="default: eager,lazy; eager on the cpu")
    parser.add_argument("--minutes", type=float, default=10.0, help="of all modes together; default: 10")
    parser.add_argument("--calls", type=int, default=0, metavar="N", help="of the table, evenly; default: all")
    options = parser.parse_args(arguments)
    from openhpu_record.device import chosen

    device = chosen(options.device)
    modes = (options.modes or ("eager,lazy" if device == "hpu" else "eager")).split(",")
    if not options.minutes > 0 or options.calls < 0:
        raise RecordError("expected --minutes above 0 and --calls of 0 or more")
    if unknown := [one for one in modes if one not in _LAZY or (device == "cpu" and one == "lazy")]:
        raise RecordError(f"--modes has {unknown[0]!r}; expected eager or, on hpu, lazy")
    output, folder = _places(options.output, "probe")
    each = options.minutes * 60 / len(modes)
    problems = []
    for mode in modes:
        argv = ["-m", "openhpu_record.probe.running", str(folder), device, mode, f"{each:.0f}", str(options.calls)]
        # The call that runs when the time is over may compile.
        code = children.python(argv, each * 1.5 + 120, {"PT_HPU_LAZY_MODE": _LAZY[mode]})
        if code != 0:
            problems.append(f"{mode}: {_why(code)}")
    _finish(folder, output, 2 if problems else 0, "; ".join(problems))
    return 2 if problems else 0


def _pack(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="gaudi-record pack", description="Make a file of a folder that was left.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: the folder's name without .part")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        raise RecordError(f"there is no folder {str(options.folder)!r}")
    default = options.folder.with_name(options.folder.name.removesuffix(".part"))
    output = options.output or (default if default != options.folder else default.with_suffix(".zip"))
    _finish(options.folder, output, None, "it was packed later")
    return 0


def _show(arguments: list[str]) -> int:
    """Print what a recording holds, for whoever sends it."""
    parser = argparse.ArgumentParser(prog="gaudi-record show", description="Print what is in a recording.")
    parser.add_argument("recording", type=Path)
    parser.add_argument("--events", action="store_true", help="every line of it")
    options = parser.parse_args(arguments)
    from openhpu_record.reading import Recording

    with Recording(options.recording) as recording:
        print(json.dumps(recording.manifest, indent=1))
        every = list(recording.all_events())
        if options.events:
            for event in every:
                print(json.dumps(event))
        for kind, number in Counter(event["kind"] for event in every).items():
            print(f"{number:>8} {kind}")
        print(f"{recording.tensors():>8} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
