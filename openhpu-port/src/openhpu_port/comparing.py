"""`openhpu compare`: the first module and line of two scripts whose results or gradients differ."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from openhpu.capture.hpu_graphs import compared
from openhpu_port.errors import PortError

_GRACE_S = 5.0  # from SIGTERM to SIGKILL
_TAIL = 15  # lines of what a script printed before it failed
Value = tuple[str, tuple[int, ...], str, bool, torch.Tensor]  # dtype, shape, device, whether it has a gradient, numbers


class Record(NamedTuple):
    """See `recorder.Recorder`."""

    about: dict[str, Any]
    values: list[Value]


class Run(NamedTuple):
    """A script that ran: its records in the order of the computation, and how it ended."""

    script: Path
    records: list[Record]
    reports: list[dict[str, Any]]  # indices out of range, integers that wrapped
    end: dict[str, Any]

    def line(self, place: tuple[str, int]) -> str:
        """A file and a line as a user reads it."""
        file, number = place
        return f"{file or self.script.name}:{number}" if number else "a line that is not known"

    def devices(self) -> list[str]:
        """The devices whose tensors it computed."""
        return sorted({value[2] for record in self.records for value in record.values})


class Difference(NamedTuple):
    """Where two runs part. `place` is in the first script, `other` in the second."""

    about: dict[str, Any]
    other: dict[str, Any]
    what: str
    before: dict[str, Any] | None  # of a backward pass, the last gradient that agreed


def main(arguments: Sequence[str]) -> int:
    """Run the subcommand. Returns 0 if all agrees, 1 for a difference, 2 if nothing could be compared."""
    parser = argparse.ArgumentParser(
        prog="openhpu compare", usage="openhpu compare [--seed N] [--seconds S] [--strict] A.py B.py [ARG ...]",
        description="Run two scripts with the same seed; name the first module and line that differ.",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of random numbers, 0 or more; default: 0")
    parser.add_argument("--seconds", type=float, default=600.0, help="that each script may take; default: 600")
    parser.add_argument("--strict", action="store_true", help="do what a Gaudi does: sets OPENHPU_STRICT=gaudi")
    parser.add_argument("scripts", metavar="SCRIPT", nargs=2, type=Path)
    parser.add_argument("rest", metavar="ARG", nargs=argparse.REMAINDER, help="for both scripts")
    options = parser.parse_args(arguments)
    try:
        if options.seed < 0 or not options.seconds > 0:
            raise PortError("expected a --seed of 0 or more, and --seconds above 0")
        runs = [run(script, options.seed, options.seconds, options.strict, options.rest) for script in options.scripts]
    except (PortError, OSError) as error:
        print(f"openhpu compare: {error}", file=sys.stderr)
        return 2
    a, b = runs
    for one in runs:
        print(f"{one.script.name}: {len(one.records)} results on {', '.join(one.devices())}", end="")
        print(f"; it ended by {one.end['error']}" if one.end["error"] else "")
    count, difference = first_difference(a, b)
    print("\n".join(told(a, b, count, difference)))
    failed = any(one.end["error"] for one in runs)
    return 1 if difference else 2 if failed or not count else 0


def run(script: Path, seed: int, seconds: float, strict: bool = False, arguments: Sequence[str] = ()) -> Run:
    """Run a script in a process of its own, and read what it recorded. Raises PortError if it recorded nothing."""
    if not script.is_file():
        raise PortError(f"there is no script {str(script)!r}")
    variables = {**os.environ, "TORCHDYNAMO_DISABLE": "1", **({"OPENHPU_STRICT": "gaudi"} if strict else {})}
    with tempfile.TemporaryDirectory(prefix="openhpu-compare-") as folder:
        file, said = Path(folder) / "records", Path(folder) / "said"
        command = [str(Path(__file__).with_name("recording.py")), str(file), str(seed), str(script.resolve())]
        with said.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *command, *arguments], env=variables, stdout=output, stderr=output,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        late = _wait(process, seconds)
        records = [Record(*one) for one in _read(file)]
        end = next(
            (one.about for one in records if one.about["kind"] == "end"), {"error": f"exit code {process.poll()}"}
        )
        if late:
            end = {**end, "error": f"its time, {seconds:g} s; --seconds gives it more"}
        if end["error"]:
            print("\n".join(said.read_text(errors="replace").splitlines()[-_TAIL:]), file=sys.stderr)
    found = sorted((one for one in records if "sequence" in one.about), key=lambda one: one.about["sequence"])
    if not found:
        raise PortError(
            f"{script} computed nothing with PyTorch that could be recorded; it ended by {end['error'] or 'itself'}"
        )
    return Run(script, found, [one.about for one in records if "params" in one.about], end)


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


def _read(file: Path) -> Iterator[Any]:
    with contextlib.suppress(FileNotFoundError, EOFError, pickle.UnpicklingError), file.open("rb") as records:
        while True:
            yield pickle.load(records)


def first_difference(a: Run, b: Run) -> tuple[int, Difference | None]:
    """How many results agree, and the first in the order of `a` that does not, or where one script ended."""
    lines = _Lines(a, b)
    there, keys = _keyed(b.records, lambda place: place), _keyed(a.records, lines.in_b)
    partners = {id(record): there.get(key) for key, record in keys.items()}
    count, before = 0, None
    for record in a.records:
        other = partners.get(id(record))
        if other is not None and len(other.values) == len(record.values):
            for one, two in zip(record.values, other.values, strict=True):
                if what := _unequal(one, two, record.about["kind"]):
                    return count, Difference(record.about, other.about, what, before)
            count += 1
            if record.about["kind"] != "weight":
                before = record.about if record.about["kind"] == "gradient" else None
    for ended, partner, place in ((a, b, None), (b, a, lines.in_a)):
        failed = ended.end.get("place")
        if failed and not partner.end["error"]:
            about = {**ended.end, "kind": "line"}
            here = about if place is None else {**about, "place": place(failed)}
            there_ = about if place else {**about, "place": lines.in_b(failed)}
            return count, Difference(here, there_, f"{ended.script.name} ended by {ended.end['error']}", before)
    return count, None


def _unequal(one: Value, two: Value, kind: str) -> str:
    """How two values differ; empty if they agree."""
    if one[1] != two[1]:
        return f"the shapes are {list(one[1])} and {list(two[1])}"
    a, b = one[4], two[4]
    if a.is_floating_point() != b.is_floating_point() or a.is_complex() != b.is_complex():
        return f"the dtypes are {one[0]} and {two[0]}"
    share = compared.share(getattr(torch, value[0].removeprefix("torch.")) for value in (one, two))
    wide = torch.promote_types(a.dtype, b.dtype) if a.dtype != b.dtype else a.dtype
    a, b = a.to(wide), b.to(wide)
    if not compared.close(a, b, share):
        return f"{compared.amount(a, b)} ({one[0]} on {one[2]}, {two[0]} on {two[2]})"
    if kind == "line" and one[3] != two[3]:
        return f"it has {'a' if one[3] else 'no'} gradient, and {'one' if two[3] else 'none'} in the other script"
    return ""


class _Lines:
    """Lines of the first script's files in the second's, and back: where the texts are equal, or replace each other."""

    def __init__(self, a: Run, b: Run) -> None:
        self._a, self._b = a, b
        self._files: dict[str, dict[int, int]] = {}

    def _pairs(self, file: str) -> dict[int, int]:
        if file not in self._files:
            paths = [one.script.parent / file if file else one.script for one in (self._a, self._b)]
            texts = [path.read_text(errors="replace").splitlines() if path.is_file() else [] for path in paths]
            pairs: dict[int, int] = {}
            for tag, i, end, j, last in difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
                if tag in ("equal", "replace"):
                    pairs.update((i + at + 1, j + at + 1) for at in range(min(end - i, last - j)))
            self._files[file] = pairs
        return self._files[file]

    def in_b(self, place: tuple[str, int]) -> tuple[str, int]:
        file, number = place
        return file, self._pairs(file).get(number, -number)

    def in_a(self, place: tuple[str, int]) -> tuple[str, int]:
        file, number = place
        return file, next((one for one, other in self._pairs(file).items() if other == number), 0)


def _keyed(records: list[Record], moved: Any) -> dict[Any, Record]:
    """Records by what they are: results of a line are numbered in the order in which it made them."""
    found: dict[Any, Record] = {}
    groups: defaultdict[Any, list[Record]] = defaultdict(list)
    for record in records:
        about = record.about
        if about["kind"] in ("line", "gradient"):
            groups[about["kind"], about["module"], moved(about["place"]), about["run"]].append(record)
        else:
            found[about["kind"], about["module"], about["op"], about["run"]] = record
    for key, group in groups.items():
        found.update({(*key, len(group), at): record for at, record in enumerate(group)})
    return found


def told(a: Run, b: Run, count: int, difference: Difference | None) -> list[str]:
    """The lines that a user reads."""
    if difference is None:
        rest = "" if count else "; the scripts have no module and no line in common"
        return [f"{count} results agree within their dtypes' tolerance{rest}", *_suspects(a, b, None)]
    about, before = difference.about, difference.before
    backward = about["kind"] in ("gradient", "weight")
    where = before if backward and before else about
    other = difference.other if where is about else {"place": _Lines(a, b).in_b(where["place"])}
    what = f"`{about['op']}`" if about["kind"] == "line" else about["op"]
    if backward:
        result = f"the result of {a.line(about['place'])} (module {about['module'] or 'none'})"
        what = about["op"] if about["kind"] == "weight" else f"the backward pass to {result}"
    return [
        f"{count} results agree; then the first difference:",
        f"  module: {where['module'] or 'none'}",
        f"  line:   {a.line(where['place'])}, {b.line(other['place'])}",
        f"  in:     {what}, run {about['run']}",
        f"  how:    {difference.what}",
        *_suspects(a, b, difference),
    ]


def _suspects(a: Run, b: Run, difference: Difference | None) -> list[str]:
    """What can make the scripts differ and was seen: indices, integers that wrapped, dtypes under autocast."""
    found = []
    for one in (a, b):
        for report in one.reports:
            file, number = report["site"] or ("", 0)
            line, op, params = f"{Path(file).name or 'a line'}:{number}", report["params"]["op"], report["params"]
            if report["kind"] == "indices_out_of_range":
                number = f"{params['indices']} out of range ({params['padding']} are -1)"
                found.append(f"indices: {op} at {line} has {number}; hpu reads zeros and drops writes there, and the "
                             "CPU raises IndexError")  # fmt: skip
            else:
                found.append(f"int64: {op} at {line} wraps {params['overflows']} results to int32, as a Gaudi does")
    until = difference.about.get("sequence", 0) if difference else float("inf")
    there = _keyed(b.records, lambda place: place)
    for key, record in _keyed(a.records, _Lines(a, b).in_b).items():
        about, other = record.about, there.get(key)
        if other is None or not (about["autocast"] or other.about["autocast"]) or about["sequence"] > until:
            continue
        dtypes = record.values[0][0], other.values[0][0]
        if dtypes[0] != dtypes[1]:
            why = "the devices' lists of operators differ"
            if not (about["autocast"] and other.about["autocast"]):
                why = f"it is on only in {(a if about['autocast'] else b).script.name}"
            found.append(f"autocast: `{about['op']}` at {a.line(about['place'])} gives {dtypes[0]} in {a.script.name} "
                         f"and {dtypes[1]} in {b.script.name}; {why}")  # fmt: skip
            break
    return [f"  suspect: {one}" for one in dict.fromkeys(found)]
