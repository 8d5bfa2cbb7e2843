"""A process that runs the cases that it is asked for (commands/answering.py), one by one."""

import faulthandler
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy
import torch

from commands import answering
from openhpu import counters
from tests.conformance import backward, forward, gaudi, modules, optimizers, planted
from tests.conformance.database import Case
from tests.conformance.execute import DEVICE, Checks, settle

RUNNERS = {
    "op_forward": forward.run,
    "op_backward": backward.run,
    "module": modules.run,
    "optimizer": optimizers.run,
    "gaudi_eager": gaudi.run,
    "gaudi_lazy": gaudi.run,
}


def run_case(text: str, part: str) -> dict[str, Any]:
    case = Case.parse(text)
    checks = Checks()
    random.seed(case.seed)
    numpy.random.seed(case.seed)
    torch.manual_seed(case.seed)
    start = time.perf_counter()
    recorded = counters()["ops_recorded"]
    try:
        RUNNERS[case.family](case, checks, part)
    except Exception as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
        checks.fail("case", f"{type(e).__name__}: {' '.join(str(e).split())[:400]} ({last.name}, line {last.lineno})")
        settle(DEVICE)
    return {
        "case": text,
        "ok": checks.count == 0,
        "failures": checks.failures,
        "count": checks.count,
        "samples": checks.samples,
        "checked": checks.checked,
        "recorded": counters()["ops_recorded"] - recorded,
        "seconds": round(time.perf_counter() - start, 3),
    }


def serve(run: Callable[[tuple[str, ...]], list[dict[str, Any]]]) -> None:
    """Answers "run" with the results of its cases, until the input ends. The process's arguments: PART THREADS.

    What the databases themselves provoke is filtered: the suite compares errors, not warnings.
    """
    faulthandler.enable()
    torch.set_num_threads(int(sys.argv[2]))
    warnings.simplefilter("ignore")
    torch.set_warn_always(False)

    def answer(*cases: str) -> dict[str, Any]:
        planted.plant_if_asked()
        return {"results": run(cases)}

    answering.serve(lambda: SimpleNamespace(run=answer))


def main() -> None:
    serve(lambda cases: [run_case(case, sys.argv[1]) for case in cases])


if __name__ == "__main__":
    main()
