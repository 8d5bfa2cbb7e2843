"""`python -m openhpu_record.probe.running FOLDER DEVICE MODE SECONDS CALLS`: runs the probe in one mode."""

import sys
import time
from pathlib import Path
from typing import Any

from openhpu_record import outcomes
from openhpu_record.device import mark_step, prepared
from openhpu_record.environment import environment, facts
from openhpu_record.errors import RecordError
from openhpu_record.probe.table import RANDOM, SPEED, probe_calls
from openhpu_record.writing import Writer

TOGETHER = 8  # calls of lazy mode that become one graph


def some(number: int | None) -> list[dict[str, Any]]:
    """So many calls, evenly over the table but for those of SPEED, so that they are of all kinds; None: all."""
    every = probe_calls()
    if number is None:
        return every
    small = [call for call in every if call["family"] != SPEED]
    return small[:: max(1, len(small) // max(number, 1))][:number]


def probe(writer: Writer, device: str, mode: str, seconds: float, chosen: list[dict[str, Any]]) -> int:
    """Run calls within a time, and record them. Returns how many ran."""
    end = time.monotonic() + seconds
    done = 0
    if mode == "lazy":  # its graphs are not timed
        chosen = [call for call in chosen if call["family"] != SPEED]
    together = TOGETHER if mode == "lazy" else 1
    writer.event("environment", mode=mode, **environment(device))
    for first in range(0, len(chosen), together):
        if time.monotonic() > end or writer.stopped:
            break
        group = chosen[first : first + together]
        for call, outcome in zip(group, _outcomes(group, device, mode)):
            times = outcomes.seconds(call, device) if mode == "eager" and "results" in outcome else None
            about = outcomes.stored(outcome, writer.keep, f"{mode}.{call['id']}")
            writer.event("call", mode=mode, **call, outcome=about, seconds=times)
            done += 1
    writer.event("facts", mode=mode, **facts(device))
    writer.event("probed", mode=mode, calls=done, of=len(chosen))
    return done


def _outcomes(group: list[dict[str, Any]], device: str, mode: str) -> list[dict[str, Any]]:
    if any(call["family"] == RANDOM for call in group):
        return [_alone(call, device) for call in group]
    reads = [outcomes.run(call, device) for call in group]
    if mode == "lazy":
        mark_step(device)
    found = [read() for read in reads]
    if len(group) > 1 and any("error" in one for one in found):
        return [_alone(call, device) for call in group]  # an error of a graph need not be that of this call
    return found


def _alone(call: dict[str, Any], device: str) -> dict[str, Any]:
    return outcomes.distribution(call, device) if call["family"] == RANDOM else outcomes.run(call, device)()


def main(folder: str, device: str, mode: str, seconds: str, number: str) -> int:
    """Returns 2 if the device is missing."""
    try:
        prepared(device)
    except (ImportError, RuntimeError) as error:
        print(f"gaudi-record: the device {device!r} is missing: {error}", file=sys.stderr)
        return 2
    writer = Writer(Path(folder), prefix=f"{mode}-")
    writer.manifest(what="probe", depth="calls", environment=environment(device))
    done = probe(writer, device, mode, float(seconds), some(int(number) or None))
    writer.close()
    print(f"{mode}: {done} calls", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except RecordError as problem:
        sys.exit(f"gaudi-record: {problem}")
