"""What a suite runs in turns, a part for each commit: what it repeats in another mode or with another version, and
what takes long and changes seldom.

`TURNS` names the files by suite, each with the reason why a part of its tests is enough. All other files of a suite run
each time. Which part, the commit says (as with tests/rotating): its hash modulo their number. pytest is given
`--turn SUITE:K/N`; without it, as with `python -m tests.run --only SUITE`, every test runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fnmatch import fnmatch
from typing import NamedTuple


class Turns(NamedTuple):
    """`files`: patterns of paths, or of tests, and why the suite need not run them each time."""

    suite: str  # that runs the same files each time; "" where no other does
    parts: int
    files: dict[str, str]


_COMPILE = "torch.compile is for eager mode; what it captures is replayed by the same code in both"
_SCRIPTS = "scripts of their own, of what lies outside the operators: processes, signals, imports, files"
_LIBRARY = "a library; tests/hpu has its operators"

_PROCESSES = "each test starts processes of its own, and most of its time is that of importing PyTorch there"
_TOOLS = "the repository's own commands, which change seldom and which a user of the device does not run"
_COMPILERS = "its time is that of the C++ compiler; the files of the suite that are not named here compile each time"
_DEEPSPEED = "most of its time is that of importing DeepSpeed in each rank; training with each stage runs each time"

TURNS = {
    "python": Turns(
        "",
        3,
        {
            "tests/python/benchmarks/test_main.py": _TOOLS,
            "tests/python/commands/*": _TOOLS,
            "tests/python/ecosystem/*": _TOOLS,
            "tests/python/openhpu/integration/test_registration.py": _PROCESSES,
            "tests/python/openhpu/integration/test_shared_tensors.py": _PROCESSES,
            "tests/python/openhpu/interface/test_data_loader.py": _PROCESSES,
            "tests/python/openhpu/interface/test_hmp.py": _PROCESSES,
            "tests/python/openhpu/observe/insight/test_launch.py": _PROCESSES,
            "tests/python/openhpu/observe/metrics/test_lazy_metrics.py": _PROCESSES,
            "tests/python/openhpu/observe/profiler/test_by_hand.py": _PROCESSES,
            "tests/python/openhpu/observe/profiler/test_whole_process.py": _PROCESSES,
            "tests/python/openhpu/observe/smi/test_live.py": _PROCESSES,
            "tests/python/openhpu/observe/test_logs.py": _PROCESSES,
            "tests/python/openhpu/testing/test_plugin.py": _PROCESSES,
            "tests/python/release/*": _TOOLS,
            "tests/python/tests/test_faults.py": _TOOLS,
            "tests/python/tests/test_hangs.py": _TOOLS,
            "tests/python/tests/test_run.py": _TOOLS,
        },
    ),
    "compiled": Turns(
        "",
        2,
        {
            "tests/hpu/test_compiled_constants.py": _COMPILERS,
            "tests/hpu/test_compiled_deterministic.py": _COMPILERS,
            "tests/hpu/test_compiled_failures.py": _COMPILERS,
            "tests/hpu/test_compiled_graphs.py": _COMPILERS,
            "tests/hpu/test_compiled_libraries.py": _COMPILERS,
            "tests/hpu/test_compiled_out_of_range.py": _COMPILERS,
            "tests/hpu/test_compiled_requests.py": _COMPILERS,
            "tests/hpu/test_compiled_same_bits.py": _COMPILERS,
        },
    ),
    "compiler": Turns(
        "",
        2,
        {
            "tests/python/openhpu/compiler/test_lazy_steps.py": _COMPILERS,
            "tests/python/openhpu/compiler/test_out_of_range.py": _COMPILERS,
            "tests/python/openhpu/compiler/test_service.py": _COMPILERS,
        },
    ),
    "conformance": Turns(
        "",
        2,
        {
            "tests/conformance/test_harness.py": _TOOLS,
        },
    ),
    "deepspeed": Turns(
        "",
        2,
        {
            "tests/deepspeed/test_bad_input.py": _DEEPSPEED,
            "tests/deepspeed/test_checkpoints.py": _DEEPSPEED,
            "tests/deepspeed/test_compile.py": _DEEPSPEED,
            "tests/deepspeed/test_inference.py": _DEEPSPEED,
            "tests/deepspeed/test_launcher.py": _DEEPSPEED,
            "tests/deepspeed/test_memory.py": _DEEPSPEED,
            "tests/deepspeed/test_offload.py": _DEEPSPEED,
            "tests/deepspeed/test_pipeline.py": _DEEPSPEED,
        },
    ),
    "lazy": Turns(
        "hpu",
        8,
        {
            "tests/hpu/test_compile_*.py": _COMPILE,
            "tests/hpu/test_bitsandbytes.py": _LIBRARY,
            "tests/hpu/test_torchvision.py": _LIBRARY,
            "tests/hpu/test_tracing.py": "what a trace records does not depend on the mode",
            "tests/hpu/test_torchscript.py": "TorchScript's graphs are captured, as those of torch.compile",
            "tests/hpu/test_fork.py": _SCRIPTS,
            "tests/hpu/test_interrupts.py": _SCRIPTS,
            "tests/hpu/test_large_tensors.py": "most of its time is that of filling gigabytes of memory",
            "tests/hpu/test_interrupted_training.py": "scripts that name their mode themselves",
            "tests/hpu/test_autograd.py::test_gradients_keep_*_on_request": "scripts that name their mode themselves",
            "tests/hpu/test_fallback.py::test_*_forbidden": "a fallback is decided before an operator is recorded",
            "tests/hpu/test_fallback.py::test_generations_differ": "a fallback is decided before it is recorded",
            "tests/hpu/test_registration.py": _SCRIPTS,
            "tests/hpu/test_serialization.py": _SCRIPTS,
            "tests/hpu/test_thread_policy.py": "threads of kernels, which are the same in both modes",
            "tests/hpu/test_autocast.py": "dtypes are chosen before an operator is recorded",
            "tests/hpu/test_protected_memory.py": _SCRIPTS,
        },
    ),
    "distributed-lazy": Turns(
        "distributed",
        4,
        {
            "tests/distributed/test_failures.py": "ranks that end; the order of collectives is in test_order.py",
            "tests/distributed/test_launchers.py": _SCRIPTS,
            "tests/distributed/test_node_transport.py": "memory that ranks share, which is the same in both modes",
            "tests/distributed/test_replicas.py::*_recipes_are_late*": "scripts that name their mode themselves",
            "tests/distributed/test_report.py": "what is counted is the same collectives",
            "tests/distributed/test_traces.py": "spans of the same collectives",
            "tests/distributed/test_two_nodes.py": _SCRIPTS,
        },
    ),
    "lightning-next": Turns(
        "lightning",
        5,
        {
            "tests/lightning/guide/*": "the guide's blocks train as the other tests do",
            "tests/lightning/pytorch/strategies/*": "training in several processes, with DeepSpeed above all",
            "tests/lightning/fabric/strategies/*": "training in several processes",
            "tests/lightning/test_failures.py": _SCRIPTS,
            "tests/lightning/test_strategies.py": _SCRIPTS,
        },
    ),
}


def option(suite: str, commit: str) -> list[str]:
    """What pytest is given for a suite at a commit; nothing where each test runs each time."""
    if suite not in TURNS:
        return []
    parts = TURNS[suite].parts
    return [f"--turn={suite}:{int(commit, 16) % parts + 1}/{parts}"]


def in_turns(suite: str, test: str) -> bool:
    """Whether a suite runs a test, or a file's tests, in turns."""
    names = test, test.partition("::")[0]
    return suite in TURNS and any(fnmatch(name, pattern) for pattern in TURNS[suite].files for name in names)


def chosen(turn: str) -> Callable[[str], bool]:
    """Of "SUITE:K/N": whether it has a test, by the node id that pytest gives it."""
    suite, _, part = turn.partition(":")
    number, _, parts = part.partition("/")
    if suite not in TURNS or not 1 <= int(number) <= int(parts):
        raise ValueError(f"no such turn: {turn!r}")

    def has(test: str) -> bool:
        if not in_turns(suite, test):
            return True
        return hashlib.sha256(test.encode()).digest()[0] % int(parts) == int(number) - 1

    return has
