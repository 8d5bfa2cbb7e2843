"""Whether numbers that are taken now may be quoted: of which code they are, and whether the machine is idle."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from commands import ROOT, checkout

OBSERVED_S = 10.0
# Seconds of processor time that others may take in that time: what an idle system does, and whoever watches it.
_FOREIGN_S = 0.3


def _busy() -> tuple[float, float]:
    """From /proc/stat's line of all processors: all but idle, waiting for disks, and guests (counted twice there)."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _waiting, *interrupts = fields[:8]
    return (user + nice + system + sum(interrupts)) / ticks, time.process_time()


def foreign_seconds(read: Callable[[], tuple[float, float]] = _busy, seconds: float = OBSERVED_S) -> float:
    """Processor time that processes other than this one take in the next `seconds`.

    `read`: gives the busy time of the machine and of this process, in seconds.
    """
    machine, own = read()
    time.sleep(seconds)
    machine_after, own_after = read()
    return max(0.0, (machine_after - machine) - (own_after - own))


def why_not(root: Path = ROOT, foreign: Callable[[], float] = foreign_seconds) -> str:
    """What stands against quoting; empty where nothing does. Watches the machine for `OBSERVED_S`."""
    if reason := checkout.why_not(root):
        return reason
    if (taken := foreign()) > _FOREIGN_S:
        return f"other processes took {taken:.1f} s of processor time in {OBSERVED_S:.0f} s: end them and run again"
    return ""
