"""`openhpu replay recording.zip`: each call of a recording again on this device, and what differs."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openhpu.settings.output import write_output
from openhpu_record import children
from openhpu_record.errors import RecordError
from openhpu_record.reading import Recording
from openhpu_record.replay import report

_LAZY = {"eager": "0", "lazy": "1"}


def main(arguments: Sequence[str]) -> int:
    """Run the subcommand. Returns 0 if all agrees, 1 for a difference, 2 if nothing could be replayed."""
    parser = argparse.ArgumentParser(
        prog="openhpu replay",
        usage="openhpu replay [--device D] [--seconds S] [--beside OTHER] [--json FILE] RECORDING",
        description="Run each call of a recording of gaudi-record on this device, and compare.",
    )
    parser.add_argument("--device", default="hpu", choices=("hpu", "cpu"), help="default: hpu")
    parser.add_argument("--seconds", type=float, default=600.0, help="that each mode may take; default: 600")
    parser.add_argument("--beside", metavar="OTHER", type=Path, help="another recording, whose counts are shown beside")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the verdict on each call there")
    parser.add_argument("recording", metavar="RECORDING", type=Path)
    options = parser.parse_args(arguments)
    try:
        if not options.seconds > 0:
            raise RecordError(f"--seconds is {options.seconds:g}; expected a number above 0")
        found = replay(options.recording, options.device, options.seconds)
        text = report.text(options.recording, found, options.beside)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))
    except (RecordError, OSError) as error:
        print(f"openhpu replay: {error}", file=sys.stderr)
        return 2
    code = int(report.differs(found["rows"]))
    write_output("openhpu replay", text, code)
    return code


def replay(path: Path, device: str = "hpu", seconds: float = 600.0) -> dict[str, Any]:
    """The verdicts on all calls (`rows`), and by mode what this device says of itself (`facts`) and `seconds`.

    Each mode has a process of its own. Raises RecordError.
    """
    with Recording(path) as recording:
        modes = list(dict.fromkeys(str(call["mode"]) for call in recording.events("call")))
    if unknown := set(modes) - _LAZY.keys():
        raise RecordError(f"{path}: the mode {unknown.pop()!r} is not known; expected {', '.join(_LAZY)}")
    found: dict[str, Any] = {"rows": [], "facts": {}, "seconds": {}}
    for mode in modes:
        with tempfile.TemporaryDirectory(prefix="openhpu-replay-") as folder:
            output = Path(folder, "verdicts.json")
            argv = ["-m", "openhpu_record.replay.running", str(path), device, mode, str(output)]
            code = children.python(argv, seconds, {"PT_HPU_LAZY_MODE": _LAZY[mode]})
            if code is None:
                raise RecordError(f"the calls of {mode} mode took more than {seconds:g} s; --seconds gives them more")
            if code or not output.exists():
                raise RecordError(f"the replay of {mode} mode ended by {code}")
            one = json.loads(output.read_text())
        found["rows"] += one["rows"]
        found["facts"][mode] = one["facts"]
        found["seconds"][mode] = one["seconds"]
    return found
