"""`python -m openhpu_record.replay.running RECORDING DEVICE MODE OUTPUT`: replays one mode's calls into a JSON file."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from openhpu_record import outcomes
from openhpu_record.device import mark_step, prepared
from openhpu_record.environment import facts
from openhpu_record.errors import RecordError
from openhpu_record.probe.table import RANDOM
from openhpu_record.reading import Recording
from openhpu_record.replay.comparing import UNCHECKED, Verdict, verdict

_TOGETHER = 8  # calls of lazy mode that become one graph, as the probe makes them


def replayed(recording: Recording, device: str, mode: str) -> list[dict[str, Any]]:
    """The calls that the recording has of this mode, each with the verdict on it: `call`, `op`, `family`, ..."""
    waiting: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for call in recording.events("call"):
        if call["mode"] == mode:
            waiting.append(call)
            if len(waiting) == (_TOGETHER if mode == "lazy" else 1):
                found += _group(recording, waiting, device, mode)
                waiting = []
    return found + _group(recording, waiting, device, mode)


def _group(recording: Recording, group: list[dict[str, Any]], device: str, mode: str) -> list[dict[str, Any]]:
    reads = [_begun(recording, call, device) for call in group]
    if mode == "lazy":
        mark_step(device)
    here = [read() for read in reads]
    if len(group) > 1 and any("error" in one for one in here):
        here = [_begun(recording, call, device)() for call in group]  # an error of a graph need not be that of this one
    return [_told(recording, call, one) for call, one in zip(group, here, strict=True)]


def _begun(recording: Recording, call: dict[str, Any], device: str) -> Any:
    if call["family"] == RANDOM:
        found = outcomes.distribution(call, device)
        return lambda: found
    return outcomes.run(call, device, recording.kept)


def _told(recording: Recording, call: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
    try:
        one = verdict(call, _there(recording, call["outcome"]), here)
    except (RecordError, LookupError, TypeError) as error:
        one = Verdict(UNCHECKED, f"the recording has no result of it: {error}")
    about = {name: call.get(name, "") for name in ("id", "op", "family", "dtype", "values", "line", "mode")}
    return {**about, **one._asdict()}


def _there(recording: Recording, outcome: dict[str, Any]) -> dict[str, Any]:
    """An outcome of the recording with its values."""
    if "results" not in outcome:
        return outcome
    results: list[dict[str, Any]] = []
    for one in outcome["results"]:
        values = recording.kept(one["kept"]) if one.get("kept") else torch.empty(0)
        results.append({"step": 1, **one, "values": values})
    return {"results": results}


def main(path: str, device: str, mode: str, output: str) -> int:
    """Returns 2 if the recording cannot be read."""
    prepared(device)
    began = time.monotonic()
    with Recording(path) as recording:
        rows = replayed(recording, device, mode)
    about = {"rows": rows, "facts": facts(device), "seconds": time.monotonic() - began}
    Path(output).write_text(json.dumps(about))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except RecordError as problem:
        print(f"openhpu replay: {problem}", file=sys.stderr)
        sys.exit(2)
