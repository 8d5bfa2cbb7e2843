"""`openhpu predict script.py`: runs a few steps of a script on this machine's device, and predicts the last of them."""

import argparse
import contextlib
import dataclasses
import json
import math
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from openhpu.device import mode
from openhpu.observe import events
from openhpu.settings.output import write_output
from openhpu_predict import measured, processes, steps, tracks
from openhpu_predict.devices import Device, load
from openhpu_predict.errors import PredictError
from openhpu_predict.prediction import price
from openhpu_predict.recording import Recorder


class _Enough(BaseException):
    """The script has run as many steps as were asked for."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="openhpu predict",
        usage="openhpu predict [OPTION ...] SCRIPT [ARG ...]\n"
        "       openhpu predict --from RECORDING [--device D] [--fit FILE]",
        description="Predict the time and memory of a script's step on a Gaudi.",
    )
    parser.add_argument("--device", help="gaudi2, gaudi3 (default) or a TOML file")
    parser.add_argument("--mode", choices=("graph", "eager"), help="default: graph in lazy mode, else eager")
    parser.add_argument("--cards", type=int, default=1, help="by the script's process group, else data parallel")
    parser.add_argument("--steps", type=int, default=steps.STEPS, help="steps to run; the last one counts (default 3)")
    parser.add_argument("--batch", type=int, help="samples of a step (of all cards of a process group)")
    parser.add_argument("--tokens", type=int, help="tokens of a step, likewise")
    parser.add_argument("--compile-ms-per-op", type=float, metavar="MS", help="time to compile an operator of a graph")
    parser.add_argument("--trace", metavar="FILE", help="write the predicted step as a trace for Perfetto")
    parser.add_argument("--from", dest="source", metavar="RECORDING", type=Path, help="of gaudi-record: its times")
    parser.add_argument("--fit", metavar="FILE", type=Path, help="with --from: write a device file with fitted figures")
    parser.add_argument("script", metavar="SCRIPT", nargs="?")
    parser.add_argument("rest", metavar="ARG", nargs=argparse.REMAINDER)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the subcommand. Returns the exit code: 2 for a wrong request, the script's if it fails."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.source or options.fit:
        return _from(options)
    if options.script is None:
        parser.error("no script was given")
    try:
        device = _checked(options)
        recorder = Recorder("hpu")
        before = events.counters()["graphs_new"]
        code = _run(recorder, options.script, options.rest, options.steps, options.cards)
        chosen = options.mode or steps.default_mode(recorder.recording)
        if mode.is_lazy():
            recorder.recording.graphs_new = events.counters()["graphs_new"] - before or None
        found = price(recorder.recording, device, chosen, options.cards)
    except PredictError as error:
        print(f"openhpu predict: {error}", file=sys.stderr)
        return 2
    each = 1 if recorder.recording.cards else options.cards
    found.samples = options.batch * each if options.batch else None
    found.tokens = options.tokens * each if options.tokens else None
    write_output("openhpu predict", str(found), code)
    if options.trace:
        try:
            Path(options.trace).write_text(json.dumps({"displayTimeUnit": "ms", "traceEvents": tracks.events(found)}))
        except OSError as error:
            print(f"openhpu predict: {options.trace} can't be written: {error.strerror}", file=sys.stderr)
            return 1
    return code


def _checked(options: argparse.Namespace) -> Device:
    """The device that the options name. Raises PredictError for options that no script can be run with."""
    if not Path(options.script).is_file():
        raise PredictError(f"there is no script {options.script!r}; expected a file")
    if options.trace and not Path(options.trace).parent.is_dir():
        raise PredictError(f"--trace: there is no folder {str(Path(options.trace).parent)!r} to write into")
    if options.steps < 1:
        raise PredictError(f"--steps is {options.steps}; expected 1 or more")
    device = load(options.device or "gaudi3")
    each = options.compile_ms_per_op
    if each is None:
        return device
    if not 0 < each < math.inf:
        raise PredictError(f"--compile-ms-per-op is {each}; expected a number above 0")
    return dataclasses.replace(device, compile_per_operator=each / 1e3)


def _from(options: argparse.Namespace) -> int:
    """Compare with a recording."""
    try:
        if options.source is None or options.script is not None:
            raise PredictError("--from takes a recording and no script, and --fit belongs to --from")
        device = load(options.device or measured.device_of(options.source))
        text = measured.report(options.source, device, options.fit)
    except PredictError as error:
        print(f"openhpu predict: {error}", file=sys.stderr)
        return 2
    write_output("openhpu predict", text)
    return 0


def _run(recorder: Recorder, script: str, rest: list[str], number: int, cards: int) -> int:
    """Run the script up to the end of its last step."""

    def enough() -> None:
        raise _Enough

    before = sys.argv, list(sys.path)
    sys.argv = [script, *rest]
    sys.path[0] = str(Path(script).resolve().parent)
    code = 0
    try:
        ranks = processes.ranks(cards) if cards > 1 else contextlib.nullcontext()
        with ranks, steps.counted(recorder, enough, number):
            try:
                runpy.run_path(script, run_name="__main__")
            except _Enough:
                pass
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else int(error.code is not None)
    finally:
        sys.argv, sys.path[:] = before
    return code
