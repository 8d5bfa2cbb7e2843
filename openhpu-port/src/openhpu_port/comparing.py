"""`openhpu compare`: the first module and line of two scripts whose results or gradients differ."""

import argparse
import contextlib
import difflib
import functools
import math
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from openhpu.capture.hpu_graphs import compared
from openhpu.settings.output import write_output
from openhpu_port.errors import PortError
from openhpu_port.recorder import MOST_ELEMENTS

_GRACE_S = 5.0  # from SIGTERM to SIGKILL
_TAIL = 15  # lines of what a script printed before it failed
Place = tuple[str, int]  # a file in the script's folder, or "" for the script itself, and a line
Record = dict[str, Any]  # see recorder.Recorder


class Run(NamedTuple):
    """A script that ran: its records in the order of the computation, the device's reports, and how it ended."""

    script: Path
    records: list[Record]
    reports: list[Record]  # indices out of range, integers that wrapped
    end: Record

    def line(self, place: Place) -> str:
        """A place as a user reads it."""
        return f"{place[0] or self.script.name}:{place[1]}" if place[1] > 0 else "a line that is not known"


class Difference(NamedTuple):
    """Where two runs part: records of both, how, and of a backward pass the last gradient that agreed."""

    about: Record
    other: Record
    how: str
    before: Record | None = None


def main(arguments: Sequence[str]) -> int:
    """Run the subcommand. Returns 0 if all agrees, 1 for a difference, 2 if not all could be compared."""
    parser = argparse.ArgumentParser(
        prog="openhpu compare",
        usage="openhpu compare [--seed N] [--seconds S] [--strict] A.py B.py [ARG ...]",
        description="Run two scripts with the same seed; name the first module and line that differ.",
    )
    parser.add_argument("--seed", type=int, default=0, help="of random numbers, 0 or more; default: 0")
    parser.add_argument("--seconds", type=float, default=600.0, help="that each script may take; default: 600")
    parser.add_argument("--strict", action="store_true", help="do what a Gaudi does: sets OPENHPU_STRICT=gaudi")
    parser.add_argument("scripts", metavar="SCRIPT", nargs=2, type=Path)
    parser.add_argument("rest", metavar="ARG", nargs=argparse.REMAINDER, help="for both scripts")
    options = parser.parse_args(arguments)
    try:
        if options.seed < 0 or not options.seconds > 0:
            raise PortError("expected a --seed of 0 or more, and --seconds above 0")
        a, b = (run(script, options.seed, options.seconds, options.strict, options.rest) for script in options.scripts)
    except (PortError, OSError) as error:
        print(f"openhpu compare: {error}", file=sys.stderr)
        return 2
    lines = []
    for one in (a, b):
        devices = sorted({value[2] for record in one.records for value in record["values"]})
        ended = f"; it ended by {one.end['error']}" if one.end["error"] else ""
        lines.append(f"{one.script.name}: {len(one.records)} results on {', '.join(devices)}{ended}")
    count, difference = first_difference(a, b)
    write_output("openhpu compare", "\n".join([*lines, *told(a, b, count, difference)]))
    if difference:
        return 1
    compared = count and not any(one.end["error"] for one in (a, b))
    return 0 if compared else 2


def run(script: Path, seed: int, seconds: float, strict: bool = False, arguments: Sequence[str] = ()) -> Run:
    """Run a script in a process of its own, and read what it recorded. Raises PortError if it recorded nothing."""
    if not script.is_file():
        raise PortError(f"there is no script {str(script)!r}")
    variables = {**os.environ, "TORCHDYNAMO_DISABLE": "1", **({"OPENHPU_STRICT": "gaudi"} if strict else {})}
    with tempfile.TemporaryDirectory(prefix="openhpu-compare-") as folder, open(f"{folder}/said", "w+b") as said:
        command = [str(Path(__file__).with_name("recording.py")), f"{folder}/records", str(seed), str(script.resolve())]
        process = subprocess.Popen(
            [sys.executable, *command, *arguments],
            env=variables,
            stdout=said,
            stderr=said,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        late = _wait(process, seconds)
        found = list(_read(Path(folder, "records")))
        said.seek(0)
        tail = said.read().decode(errors="replace").splitlines()[-_TAIL:]
    end = next((one for one in found if one["kind"] == "end"), {"error": f"exit code {process.returncode}"})
    if late:
        end = {**end, "error": f"its time, {seconds:g} s; --seconds gives it more"}
    if end["error"]:
        print("\n".join(tail), file=sys.stderr)
    records = sorted((one for one in found if "values" in one), key=lambda one: one["sequence"])
    if not records:
        raise PortError(f"{script} computed nothing that could be recorded; it ended by {end['error'] or 'itself'}")
    return Run(script, records, [one for one in found if "params" in one], end)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the process and end it with its children. Whether its time was over."""
    late = False
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        late = True
        process.terminate()  # it writes what it has
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_GRACE_S)
    return late


def _read(file: Path) -> Iterator[Record]:
    with contextlib.suppress(FileNotFoundError, EOFError, pickle.UnpicklingError), file.open("rb") as records:
        while True:
            yield pickle.load(records)


def first_difference(a: Run, b: Run) -> tuple[int, Difference | None]:
    """How many results agree, and the first in the order of `a` that does not, or where one script ended."""
    count = 0
    before = None
    for one, other in _pairs(a, b):
        if len(one["values"]) == len(other["values"]):
            for values in zip(one["values"], other["values"], strict=True):
                if how := _unequal(*values, one["kind"]):
                    return count, Difference(one, other, how, before)
            count += 1
            if one["kind"] != "weight":
                before = one if one["kind"] == "gradient" else None
    moved = _moved(a, b)
    nowhere = {"place": ("", 0)}
    failed = sorted((one for one in (a, b) if "place" in one.end), key=lambda one: len(one.records))
    if not failed or (len(failed) == 2 and moved(a.end["place"]) == b.end["place"]):
        return count, None  # or both ended at the same line
    at = {**failed[0].end, "kind": "line"}
    how = f"{failed[0].script.name} ended by {failed[0].end['error']}"
    if failed[0] is a:
        return count, Difference(at, {"place": moved(at["place"])}, how)
    there = next((one for one in a.records if moved(one["place"]) == at["place"]), nowhere)
    return count, Difference({**at, "place": there["place"]}, at, how)


def _unequal(one: Any, two: Any, kind: str) -> str:
    """How two values (dtype, shape, device, whether it has a gradient, numbers) differ; empty if they agree."""
    a, b = one[4], two[4]
    if one[1] != two[1]:
        return f"the shapes are {list(one[1])} and {list(two[1])}"
    if a.is_floating_point() != b.is_floating_point() or a.is_complex() != b.is_complex():
        return f"the dtypes are {one[0]} and {two[0]}"
    wide = torch.promote_types(a.dtype, b.dtype)
    a, b = a.to(wide), b.to(wide)
    dtype = compared.coarsest(getattr(torch, each[0].removeprefix("torch.")) for each in (one, two))
    row = one[1][-1] if one[1] else 1
    step = max(1, -(-math.prod(one[1]) // MOST_ELEMENTS))  # of the elements that were recorded
    if not compared.close(a, b, compared.share(dtype), row, step, compared.noise(dtype)):
        return f"{compared.amount(a, b)} ({one[0]} on {one[2]}, {two[0]} on {two[2]})"
    return "one has a gradient, the other has none" if kind == "line" and one[3] != two[3] else ""


def _moved(a: Run, b: Run) -> Callable[[Place], Place]:
    """Gives the place in `b` for one in `a`: where texts are equal or replace each other; a line below 0 for none."""

    @functools.cache
    def lines(file: str) -> dict[int, int]:
        paths = [one.script.parent / file if file else one.script for one in (a, b)]
        texts = [path.read_text(errors="replace").splitlines() if path.is_file() else [] for path in paths]
        changes = difflib.SequenceMatcher(None, texts[0], texts[1], autojunk=False).get_opcodes()
        same = [change for change in changes if change[0] in ("equal", "replace")]
        return {i + k + 1: j + k + 1 for _, i, end, j, last in same for k in range(min(end - i, last - j))}

    return lambda place: (place[0], lines(place[0]).get(place[1], -place[1]))


def _pairs(a: Run, b: Run) -> list[tuple[Record, Record]]:
    """Records of the same, in the order of `a`. Results of a line are numbered in the order in which it made them."""

    def keyed(records: list[Record], moved: Callable[[Place], Place]) -> dict[Any, Record]:
        groups: defaultdict[Any, list[Record]] = defaultdict(list)
        for one in records:
            what = moved(one["place"]) if one["kind"] in ("line", "gradient") else one["op"]
            groups[one["kind"], one["module"], what, one["run"]].append(one)
        return {(*key, len(group), at): one for key, group in groups.items() for at, one in enumerate(group)}

    ours, theirs = keyed(a.records, _moved(a, b)), keyed(b.records, lambda place: place)
    found = [(one, theirs[key]) for key, one in ours.items() if key in theirs]
    return sorted(found, key=lambda pair: pair[0]["sequence"])


def told(a: Run, b: Run, count: int, difference: Difference | None) -> list[str]:
    """The lines that a user reads."""
    if difference is None:
        none = "" if count else "; the scripts have no module and no line in common"
        return [f"{count} results agree within their dtypes' tolerance{none}", *_suspects(a, b, float("inf"))]
    about, other, how, before = difference
    what = f"`{about['op']}`" if about["kind"] == "line" else about["op"]
    if about["kind"] == "gradient":
        what = f"the backward pass to the result of {a.line(about['place'])} (module {about['module'] or 'none'})"
    if about["kind"] in ("gradient", "weight") and before:
        about = before
        other = {"place": _moved(a, b)(before["place"])}
    return [
        f"{count} results agree; then the first difference:",
        f"  module: {about['module'] or 'none'}",
        f"  line:   {a.line(about['place'])}, {b.line(other['place'])}",
        f"  in:     {what}, run {about['run']}",
        f"  how:    {how}",
        *_suspects(a, b, difference.about["sequence"]),
    ]


def _suspects(a: Run, b: Run, until: float) -> list[str]:
    """What can make the scripts differ and was seen: indices, integers that wrapped, dtypes under autocast."""
    found = []
    for report in (*a.reports, *b.reports):
        params = report["params"]
        if "indices" in params:
            found.append(
                f"indices: {params['op']} has {params['indices']} out of range ({params['padding']} are -1); "
                "hpu reads zeros and drops writes there, and the CPU raises IndexError"
            )
        else:
            found.append(f"int64: {params['op']} wraps {params['overflows']} results to int32, as a Gaudi does")
    for one, other in _pairs(a, b):
        dtypes = [each["values"][0][0] for each in (one, other)]
        casts = [each["autocast"] for each in (one, other)]
        if one["sequence"] <= until and any(casts) and dtypes[0] != dtypes[1]:
            why = "lists of operators differ" if all(casts) else "it is on in one script alone"
            found.append(
                f"autocast: `{one['op']}` at {a.line(one['place'])} gives {dtypes[0]}, and {dtypes[1]} at "
                f"{b.line(other['place'])}; {why}"
            )
            break
    return [f"  suspect: {one}" for one in dict.fromkeys(found)]
