"""The one table of names of vllm and vllm_gaudi that a simulation replaces, and what it replaces them with.

A row is (module, name, function of `border.Border`, of its `cards` or of its `shortcuts`, why). The function gets the
original, and returns what takes its place. Everything else of both packages runs as it was released.
"""

import importlib
import operator
import sys
from importlib import metadata
from typing import NamedTuple

from openhpu_predict.errors import PredictError
from openhpu_predict.serving.border import Border
from openhpu_predict.serving.clock import Finder

PACKAGES = ("vllm", "vllm_gaudi")
# The versions that the table fits.
VLLM, PLUGIN = "0.28.0", "0.28.0 of commit 091bbad"

_RUNNER = "vllm_gaudi.v1.worker.hpu_model_runner"
_WORKER = "vllm_gaudi.v1.worker.hpu_worker"
_DEFRAGMENTER = "vllm_gaudi.extension.defragmentation"


class Hook(NamedTuple):
    """A row of the table."""

    module: str
    name: str
    function: str
    why: str


_LOADER = "vllm.model_executor.model_loader"
_CORE = "vllm.v1.engine.core"
_SCHEDULER = "vllm.v1.core.sched.scheduler"
_OPTIONS = "vllm.engine.arg_utils"
_QUEUES = "vllm.distributed.device_communicators.shm_broadcast"

TABLE = (
    # The border.
    Hook("torch.hpu", "mem_get_info", "mem_get_info", "the memory of the simulated card"),
    Hook(_RUNNER, "get_model", "get_model", "weights have shapes and types, and no memory"),
    Hook(_RUNNER, "HPUModelRunner._compile", "compile", "the plugin's regions become borders of graphs"),
    Hook("habana_frameworks.torch.core", "mark_step", "mark_step", "in lazy mode it is a border of graphs"),
    Hook(_RUNNER, "_maybe_wrap_in_hpu_graph", "wrap", "the call of the model"),
    Hook(_RUNNER, "Sampler", "sampler", "the call of the sampler"),
    Hook(_RUNNER, "HPUModelRunner.initialize_kv_cache", "initialize_kv_cache", "the cache has a shape, and no memory"),
    Hook(_DEFRAGMENTER, "OnlineDefragmenter.__init__", "defragmenter", "copies within the cache"),
    # The clock.
    Hook(_RUNNER, "HPUModelRunner.sample_tokens", "step", "the host's share of a step, and its wait for tokens"),
    Hook(_RUNNER, "AsyncHPUModelRunnerOutput.get_output", "get_output", "the wait with asynchronous scheduling"),
    # Several cards.
    Hook(_OPTIONS, "EngineArgs.create_engine_config", "cards.engine_config", "one process has all cards"),
    Hook("vllm.distributed.parallel_state", "_node_count", "cards.node_count", "other ranks cannot be asked"),
    Hook(_QUEUES, "MessageQueue.create_from_process_group", "cards.broadcaster", "there are no other ranks that read"),
    Hook(_WORKER, "init_worker_distributed_environment", "cards.environment", "a fake group does not sum"),
    # What is left out, for nothing depends on values.
    Hook(f"{_LOADER}.dummy_loader", "initialize_dummy_weights", "shortcuts.without_values", "fake weights have none"),
    Hook(f"{_LOADER}.utils", "record_metadata_for_reloading", "shortcuts.without_values", "nothing is loaded again"),
    Hook(_RUNNER, "HPUModelRunner._create_decode_input_data", "shortcuts.decode_inputs", "shapes are of the bucket"),
    Hook(_RUNNER, "HPUModelRunner._prepare_sampling", "shortcuts.sampling", "its price depends on the rows alone"),
    # What is only noted.
    Hook(_RUNNER, "HPUModelRunner.warmup_model", "warmup_model", "where the warm-up begins and ends"),
    Hook(_RUNNER, "HPUModelRunner._form_prefill_batch", "form_prefill", "the requests of a prefill"),
    Hook(_RUNNER, "HPUModelRunner._execute_model_generic", "execute", "the bucket of a call"),
    Hook(_CORE, "EngineCore.__init__", "core", "options that cannot be honoured"),
    Hook(_CORE, "EngineCore.add_request", "add_request", "when a request arrives"),
    Hook(_SCHEDULER, "Scheduler._preempt_request", "preempt", "preemptions"),
    Hook(_SCHEDULER, "Scheduler.update_from_output", "update", "when tokens are on the host"),
)


def install(border: Border) -> None:
    """Replace what the table names, for the rest of the process. Raises PredictError.

    Modules of vllm and its plugin must not be imported yet: they bind names of `time`.
    """
    finder = Finder(PACKAGES, {"time": border.clock.module()})
    if loaded := finder.loaded():
        raise PredictError(
            f"{loaded[0]} is imported already, and has the machine's clock; begin the simulation before the first "
            "import of vllm"
        )
    sys.meta_path.insert(0, finder)
    for package in PACKAGES:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            raise PredictError(
                f"there is no module {error.name!r}; vllm {VLLM} and its plugin vllm-gaudi have to be installed: see "
                "docs/serving.md"
            ) from None
    for hook in TABLE:
        _replace(hook, border)


def _replace(hook: Hook, border: Border) -> None:
    fits = f"{__name__} fits vllm {VLLM} and vllm-gaudi {PLUGIN}, and here are {_versions()}"
    try:
        holder = importlib.import_module(hook.module)
    except (ImportError, AttributeError) as error:
        raise PredictError(f"{hook.module} cannot be imported ({type(error).__name__}: {error}); {fits}") from error
    *path, last = hook.name.split(".")
    try:
        for part in path:
            holder = getattr(holder, part)
        original = getattr(holder, last)
    except AttributeError as error:
        raise PredictError(
            f"{hook.module} has no {hook.name} ({error}), which the simulation replaces ({hook.why}); {fits}"
        ) from error
    setattr(holder, last, operator.attrgetter(hook.function)(border)(original))


def _versions() -> str:
    found = []
    for name in ("vllm", "vllm-gaudi"):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)
