"""vLLM's workers tell `openhpu run` their phase: weights, the cache of keys and values, warm-up, serving.

vllm-gaudi calls these methods of a worker in this order. `initialize_from_config` calls the warm-up, which vLLM may
call once more.
"""

import functools
import importlib
from typing import Any

from openhpu.integration.late_imports import after_import
from openhpu.observe import events
from openhpu.observe.insight.phases import CACHE, SERVING, WARM_UP, WEIGHTS

_MODULE = "vllm_gaudi.v1.worker.hpu_worker"
# Of a method: the phase that begins with it, and the one that begins after it.
_PHASES = {
    "load_model": (WEIGHTS, ""),
    "initialize_from_config": (CACHE, ""),
    "compile_or_warm_up_model": (WARM_UP, SERVING),
}


def install() -> None:
    """Wait for the worker's module. A plugin without such methods begins no phases."""
    after_import(_MODULE, _wrap)


def _wrap() -> None:
    worker = getattr(importlib.import_module(_MODULE), "HPUWorker", None)
    for name, (before, after) in _PHASES.items():
        if method := getattr(worker, name, None):
            setattr(worker, name, _told(method, before, after))


def _told(method: Any, before: str, after: str) -> Any:
    done = False  # of one model: a second call of the warm-up finds it warm

    @functools.wraps(method)
    def told(*args: Any, **more: Any) -> Any:
        nonlocal done
        if done:
            return method(*args, **more)
        events.phase(before)
        found = method(*args, **more)
        if after:
            done = True
            events.phase(after)
        return found

    return told
