"""vLLM's workers tell `openhpu run` their phase, and `openhpu.expect` the bucket and the requests of a call.

The phases are weights, the cache of keys and values, warm-up, serving. vllm-gaudi calls the methods of a worker in this
order. `initialize_from_config` calls the warm-up, which vLLM may call once more.
"""

import functools
import importlib
import sys
from typing import Any

from openhpu.integration.late_imports import after_import
from openhpu.observe import events
from openhpu.observe.insight.phases import CACHE, SERVING, WARM_UP, WEIGHTS

_MODULE = "vllm_gaudi.v1.worker.hpu_worker"
_RUNNER = "vllm_gaudi.v1.worker.hpu_model_runner"
# Of a method: the phase that begins with it, and the one that begins after it.
_PHASES = {
    "load_model": (WEIGHTS, ""),
    "initialize_from_config": (CACHE, ""),
    "compile_or_warm_up_model": (WARM_UP, SERVING),
}


def install() -> None:
    """Wait for the worker's module. A plugin without such methods begins no phases."""
    after_import(_MODULE, _wrap)
    after_import(_RUNNER, _wrap_runner)


def name_calls() -> None:
    """If vLLM's plugin is imported, its runner names the calls of the model from now on, also in a running engine."""
    if _RUNNER in sys.modules:
        _wrap_runner()


def _wrap() -> None:
    worker = getattr(importlib.import_module(_MODULE), "HPUWorker", None)
    for name, (before, after) in _PHASES.items():
        if method := getattr(worker, name, None):
            setattr(worker, name, _told(method, before, after))


def _wrap_runner() -> None:
    """The runner's call of the model. A plugin whose call has other arguments names no bucket."""
    runner = getattr(importlib.import_module(_RUNNER), "HPUModelRunner", None)
    execute = getattr(runner, "_execute_model_generic", None)
    if execute is None or hasattr(execute, "named"):
        return

    @functools.wraps(execute)
    def call(self: Any, *args: Any, **more: Any) -> Any:
        with events.work(functools.partial(_call, self, args)):
            return execute(self, *args, **more)

    call.named = True  # type: ignore[attr-defined]
    runner._execute_model_generic = call  # type: ignore[union-attr]


def _call(runner: Any, args: tuple[Any, ...]) -> str:
    """The bucket of a call, and the requests of its step."""
    try:
        token_ids, _, metadata = args[:3]
        phase = "prompt" if metadata.is_prompt else "decode"
        sizes = f"{token_ids.size(0)} x {runner._seq_len(metadata)}, {runner._num_blocks(metadata)} blocks"
        requests = [str(one) for one in runner.input_batch.req_ids if one is not None]
    except (AttributeError, ValueError, TypeError):
        return "vLLM calls the model"
    names = ", ".join(requests[:4]) + ", ..." * (len(requests) > 4)
    return f"vLLM runs {phase} {sizes}" + (f"; requests of the step: {names}" if names else "")


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
