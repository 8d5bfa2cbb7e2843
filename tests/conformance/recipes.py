"""Samples of every operator through compiled recipes, many operators to a recipe: a compilation takes seconds.

`run_cases` is for the suite; as a module (`python -m tests.conformance.recipes PART THREADS`) it is the process that
does it: a line of cases in, a line of JSON out.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.conformance.database import Case

FAMILY = "recipe"
DTYPES = ("float32", "bfloat16", "int64")
PER_RECIPE = 40
SAMPLES = 6  # looked at to find one that a graph holds
HANG_S = 1800.0
_REFRESH = 8  # batches to a process

Result = dict[str, Any]


def cases() -> list[Case]:
    """Every operator with each of DTYPES that it has."""
    from tests.conformance import database

    forward = database.cases(("op_forward",))
    return [database.Case(FAMILY, case.name, case.dtype) for case in forward if case.dtype in DTYPES]


def run_cases(names: list[str], part: str, threads: int, report: Callable[[Result], None]) -> None:
    """Runs the cases in batches. A batch that ends its process is run again in halves, down to the case."""
    from tests.conformance.pool import Worker

    # Cases of one dtype together: operators of several dtypes would only make more kinds of kernels.
    order = sorted(names, key=lambda name: (DTYPES.index(name.rsplit(":", 1)[1]), name))
    batches = [order[i : i + PER_RECIPE] for i in range(0, len(order), PER_RECIPE)]
    worker = Worker(part, threads, None, mode="recipe")
    done = 0
    try:
        while batches:
            batch = batches.pop(0)
            answer = worker.run(" ".join(batch), HANG_S)
            done += 1
            if "results" in answer:
                for result in answer["results"]:
                    report(result)
            elif len(batch) > 1:
                middle = len(batch) // 2
                batches[:0] = [batch[:middle], batch[middle:]]
            else:
                report({**answer, "case": batch[0]})
            if done % _REFRESH == 0:
                worker.close()
    finally:
        worker.close()


class Chosen(NamedTuple):
    """A case with a sample that a graph holds as a whole."""

    case: Case
    program: Callable[[Any, str], Any]
    arguments: Any
    tolerance: Any
    content: bool
    recorded: int  # operators
    expected: Any  # the CPU's outcome; for random operators the device's own, node by node


def _policy(name: str) -> None:
    from openhpu import _C, settings

    _C.configure_graphs(name, settings.get("HABANA_PGM_LRU_MAX"), 1 << 18)


def _moved(before: dict[str, int]) -> dict[str, int]:
    from openhpu import counters

    return {name: value - before[name] for name, value in counters().items()}


def _result(case: str, **fields: Any) -> Result:
    empty = {"ok": True, "failures": [], "count": 0, "samples": 0, "checked": 0, "recorded": 0, "seconds": 0.0}
    return {"case": case, **empty, **fields}


def _failed(case: str, message: str) -> Result:
    return _result(case, ok=False, failures=[message], count=1, samples=1, checked=1)


def _choose(case: Case) -> Chosen | str:
    """The first sample that is recorded without ending the graph, or why there is none."""
    from openhpu import counters
    from tests.conformance import forward
    from tests.conformance.compare import Tolerance
    from tests.conformance.database import operators
    from tests.conformance.execute import DEVICE, attempt, seed_all, synchronize
    from tests.conformance.transfer import Transfer

    op = operators()[case.name]
    wanted = forward.tolerance(op, case.torch_dtype)
    # Fused code rounds less often than one operator after the other.
    share = {"bfloat16": 2e-2, "float32": 1e-5}.get(case.dtype, 0.0)
    tolerance = Tolerance(wanted.atol, max(wanted.rtol or 0.0, share), of_largest=share)
    why = "no sample"
    for sample in forward.samples_of(op, case, SAMPLES, requires_grad=False):
        arguments = forward.arguments_of(sample, op)
        program = forward.calling(op)
        expected = attempt(program, arguments, "cpu", case.seed)
        learned = attempt(program, arguments, DEVICE, case.seed)
        if expected.error is not None or learned.error is not None:
            why = "an error"
            continue
        moved = Transfer(DEVICE)(arguments)
        synchronize(DEVICE)
        seed_all(case.seed)
        before = counters()
        program(moved, DEVICE)
        change = _moved(before)
        synchronize(DEVICE)
        if change["ops_fallback"]:
            why = "a CPU fallback"
        elif change["ops_waited"] or change["graphs_flushed"]:
            why = "waits for values"
        elif change["ops_submitted"]:
            why = "an operand on the host"
        elif not change["ops_recorded"]:
            why = "nothing runs on the device"
        else:
            if expected.used_random_numbers:
                expected = learned
            content = op.name not in forward.UNINITIALISED
            return Chosen(case, program, arguments, tolerance, content, change["ops_recorded"], expected)
    return why


def _through_a_recipe(chosen: list[Chosen], results: list[Result]) -> None:
    """Records all samples as one graph and compares what its recipe gave; in halves where it has none."""
    from openhpu import counters
    from tests.conformance.compare import Demand, Mismatch, compare
    from tests.conformance.execute import DEVICE, seed_all, synchronize
    from tests.conformance.transfer import Transfer

    moved = [Transfer(DEVICE)(c.arguments) for c in chosen]
    synchronize(DEVICE)
    _policy("sync")
    before = counters()
    problem = ""
    values = []
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for c, arguments in zip(chosen, moved, strict=True):
                seed_all(c.case.seed)
                values.append(c.program(arguments, DEVICE))
            synchronize(DEVICE)
        change = _moved(before)
        if change["graphs_flushed"] != 1 or change["ops_in_recipes"] != change["ops_recorded"]:
            texts = [str(w.message) for w in said if "compiled" in str(w.message)]
            problem = f"not compiled: {(texts or ['several graphs'])[-1][-400:]}"
    except Exception as error:
        problem = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
    finally:
        _policy("off")
    if problem:
        if len(chosen) > 1:
            middle = len(chosen) // 2
            _through_a_recipe(chosen[:middle], results)
            _through_a_recipe(chosen[middle:], results)
        else:
            results.append(_failed(str(chosen[0].case), problem))
        return
    for c, arguments, value in zip(chosen, moved, values, strict=True):
        demand = Demand(c.tolerance, content=c.content)
        try:
            compare(_on_host(c.expected.value), value, demand)
            compare(_on_host(c.expected.arguments), arguments, Demand(c.tolerance, placed=False), "arguments")
            results.append(_result(str(c.case), samples=1, checked=1, recorded=c.recorded))
        except Exception as error:
            kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
            results.append(_failed(str(c.case), kind + " ".join(str(error).split())[:400]))


def _on_host(value: Any) -> Any:
    """The expectation as the comparison wants it: tensors of the CPU, with the same strides."""
    import torch

    if isinstance(value, torch.Tensor) and value.device.type == "hpu":
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype).copy_(value.detach())
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(_on_host(v) for v in value)
    return {k: _on_host(v) for k, v in value.items()} if type(value) is dict else value


def run_batch(names: list[str]) -> list[Result]:
    from tests.conformance.database import Case

    _policy("off")
    chosen: list[Chosen] = []
    results: list[Result] = []
    for name in names:
        case = Case.parse(name)
        try:
            found = _choose(case)
        except Exception as error:
            results.append(_failed(name, f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"))
            continue
        if isinstance(found, str):
            results.append(_result(name, outside=found))
        else:
            chosen.append(found)
    if chosen:
        _through_a_recipe(chosen, results)
    return results


def main() -> None:
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch

    from tests.conformance.worker import quiet

    torch.set_num_threads(int(sys.argv[2]))
    quiet()
    for line in sys.stdin:
        start = time.perf_counter()
        results = run_batch(line.split())
        for result in results:
            result["seconds"] = round((time.perf_counter() - start) / len(results), 3)
        channel.write(json.dumps({"results": results}) + "\n")


if __name__ == "__main__":
    main()
