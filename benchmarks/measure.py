"""One benchmark in a process of its own: `python -m benchmarks.measure NAME OPTIONS`, for `python -m benchmarks`."""

import json
import pkgutil
import sys
from typing import Any

from benchmarks import parts, report, timing
from benchmarks.__main__ import BENCHMARKS
from benchmarks.report import Table
from commands.kept import Kept

QUICK_ROUNDS = 3


def measured(name: str, asked: dict[str, Any]) -> tuple[dict[str, str], list[Table]]:
    """The machine and the tables."""
    described = report.machine()
    described["malloc"] = "keeps freed memory" if timing.calm_malloc() else "as the system has it"
    benchmark = BENCHMARKS[name]
    measure = pkgutil.resolve_name(f"benchmarks.{benchmark.function}")
    return described, measure(QUICK_ROUNDS if asked["quick"] else benchmark.rounds)


def main(name: str, asked: dict[str, Any]) -> None:
    """Measure, and keep what was measured, as `asked` says."""
    parts.kept = Kept(asked["kept"], asked["fingerprint"])
    parts.part(parts.WHOLE, measured, name, asked)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
