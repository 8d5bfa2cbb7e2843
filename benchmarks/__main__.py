"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import compile as compiling
from benchmarks import (
    deepspeed,
    deterministic,
    distributed,
    event_cost,
    graphs,
    images,
    import_time,
    insight_cost,
    lazy,
    lightning,
    machines,
    memory,
    operators,
    parameters,
    profiler,
    quotable,
    quoted,
    recording,
    report,
    timing,
    training,
)
from benchmarks.report import Table

# Name to (what measures it, rounds).
BENCHMARKS: dict[str, tuple[Callable[[int], list[Table]], int]] = {
    "dispatch": (operators.dispatch, 25),
    "large": (operators.large, 15),
    "linear100": (training.linear100, 25),
    "steps": (training.steps, 20),
    "recording": (recording.recording, 15),
    "lazy": (lazy.lazy, 15),
    "compile": (compiling.compiled, 15),
    "deterministic": (deterministic.deterministic, 15),
    "graphs": (graphs.graphs, 15),
    "graphs1": (graphs.one_thread, 15),
    "machines": (machines.machines, 10),
    "distributed": (distributed.distributed, 11),
    "lightning": (lightning.lightning, 10),
    "deepspeed": (deepspeed.deepspeed, 9),
    "deepspeed-large": (deepspeed.deepspeed_large, 5),
    "memory": (memory.memory, 15),
    "parameters": (parameters.parameters, 15),
    "events": (event_cost.event_cost, 25),
    "insight": (insight_cost.insight_cost, 25),
    "profiler": (profiler.profiler, 15),
    "images": (images.images, 3),
    "import": (import_time.import_time, 10),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run benchmarks and print their tables; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Times of hpu beside the CPU device's.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of {', '.join(BENCHMARKS)}; all if none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--results", action="store_true", help=f"put what was measured into {report.RESULTS.name}")
    parser.add_argument("--readme", action="store_true", help="only write README's table of speed from the results")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it runs, not to quote")
    parser.add_argument("--seed", type=int, metavar="N", help="machines: the number that draws its fourth model")
    parser.add_argument("--stock-malloc", action="store_true", help="leave glibc's malloc of the CPU device as it is")
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; one of {', '.join(BENCHMARKS)}")
    if args.readme:
        quoted.write()
        return 0
    if args.results and args.quick:
        parser.error("--results is not for --quick")
    if args.results and (reason := quotable.why_not()):
        parser.error(f"--results: {reason}")

    described = report.machine()
    calm = not args.stock_malloc and timing.calm_malloc()
    described["malloc"] = "keeps freed memory" if calm else "as the system has it"
    print("\n".join(f"{name}: {value}" for name, value in described.items()), flush=True)
    tables: dict[str, list[Table]] = {}
    for name in args.names or BENCHMARKS:
        measure, rounds = BENCHMARKS[name]
        if name == "machines":
            measure = partial(machines.machines, seed=args.seed)
        tables[name] = measure(3 if args.quick else rounds)
        for table in tables[name]:
            print(f"\n{name}: {table.title}\n{table.as_text()}", flush=True)
    if args.json:
        results = {name: [table.as_data() for table in own] for name, own in tables.items()}
        args.json.write_text(json.dumps({"machine": described, "benchmarks": results}, indent=2) + "\n")
    if args.results:
        report.write_results(described, tables, BENCHMARKS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
