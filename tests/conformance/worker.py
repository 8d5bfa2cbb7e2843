"""A process that runs cases named on its standard input and answers each with a line of JSON."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any


def run_case(text: str, part: str) -> dict[str, Any]:
    import numpy
    import torch

    from openhpu import counters
    from tests.conformance import backward, forward, gaudi, modules, optimizers
    from tests.conformance.database import Case
    from tests.conformance.execute import DEVICE, Checks, settle

    case = Case.parse(text)
    checks = Checks()
    runners = {
        "op_forward": forward.run,
        "op_backward": backward.run,
        "module": modules.run,
        "optimizer": optimizers.run,
        "gaudi_eager": gaudi.run,
        "gaudi_lazy": gaudi.run,
    }
    random.seed(case.seed)
    numpy.random.seed(case.seed)
    torch.manual_seed(case.seed)
    start = time.perf_counter()
    recorded = counters()["ops_recorded"]
    try:
        runners[case.family](case, checks, part)
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


def quiet() -> None:
    """Filters what the databases themselves provoke; the suite compares errors, not warnings."""
    warnings.simplefilter("ignore")
    import torch

    torch.set_warn_always(False)


def serve(answer: Callable[[str], dict[str, Any]], threads: int) -> None:
    """Answers every line of standard input with a line of JSON, until the input ends."""
    # What operators print goes to the log; the answers have a channel of their own.
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(threads)
    quiet()
    for line in sys.stdin:
        channel.write(json.dumps(answer(line.strip())) + "\n")


def main() -> None:
    part = sys.argv[1]
    faulthandler.enable()

    def answer(text: str) -> dict[str, Any]:
        from tests.conformance import planted

        planted.plant_if_asked()
        return run_case(text, part)

    serve(answer, int(sys.argv[2]))


if __name__ == "__main__":
    main()
