"""The suites of the Python tests: their files, their environments, and what of them runs in turns."""

import os
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from commands import ROOT
from tests.processes import RECIPES

LAZY = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"}
COMPILED = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": f"{RECIPES},False,4096"}


def beside(*names: str) -> dict[str, str]:
    """The environment of what is installed beside the packages, each in a folder of its own; see the Makefile."""
    return {"PYTHONPATH": os.pathsep.join(str(Path(sys.prefix) / name) for name in names)}


DEEPSPEED = beside("deepspeed", "transformers")
# Lightning's newest version, with the DeepSpeed that it names.
LIGHTNING_NEXT = beside("lightning-next", "deepspeed-0.16", "deepspeed", "transformers")


class Suite(NamedTuple):
    """Test files by patterns, the environment of their process, and turns.

    Each turn runs one of `period` parts of the files that match `turns` and not `always`.
    """

    files: tuple[str, ...]
    environment: dict[str, str] = {}  # noqa: RUF012
    without: tuple[str, ...] = ()  # patterns
    compiles: bool = False  # whether it waits for the headers of recipes
    seconds: int = 120  # of a test
    period: int = 1
    turns: tuple[str, ...] = ()  # patterns, as `always`
    always: tuple[str, ...] = ()

    def all_paths(self) -> list[str]:
        """Every test file, sorted."""
        found = {path for pattern in self.files for path in ROOT.glob(pattern)}
        names = sorted(str(path.relative_to(ROOT)) for path in found)
        return [name for name in names if not _match(name, self.without)]

    def in_turns(self) -> list[str]:
        """Those that do not run in each turn."""
        return [name for name in self.all_paths() if _match(name, self.turns) and not _match(name, self.always)]

    def paths(self, turn: int | None) -> list[str]:
        """Those that run in a turn; None: all."""
        left_out = set()
        if turn is not None:
            left_out = {path for k, path in enumerate(self.in_turns()) if k % self.period != turn % self.period}
        return [name for name in self.all_paths() if name not in left_out]


def _match(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _files(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/test_{name}.py" for name in names)


# What depends on how operators are submitted: recording, memory and threads that a recording shares, reads of results,
# and kernels of our own. The other files are about scripts, libraries and captured graphs, which are the same.
RECORDED = (
    "tests/hpu/gaudi_ops/*",
    "tests/hpu/hpex/*",
    *_files(
        "hpu",
        "lazy_*",
        "aliasing",
        "async",
        "autograd",
        "copies",
        "device",
        "direct_kernels",
        "errors",
        "events",
        "fallback",
        "graph_*",
        "int64",
        "memory*",
        "multi_device",
        "nested",
        "optimizers",
        "out_of_*",
        "pinned",
        "predicted_calls",
        "products",
        "profiler",
        "reads",
        "rng",
        "shape_cache",
        "small_calls",
        "source_lines",
        "storage",
        "streams",
        "threads",
        "trace",
        "unforeseen_results",
        "views",
        "waits",
        "wider_dtypes",
    ),
)
# In turns, since most of their time is that of the C++ compiler. The other files of the suites compile each time.
COMPILED_FILES = _files(
    "hpu",
    *(
        f"compiled_{name}"
        for name in (
            "constants",
            "custom_ops",
            "deterministic",
            "failures",
            "gaudi_ops",
            "graphs",
            "int64",
            "libraries",
            "out_of_*",
            "products",
            "requests",
            "same_bits",
        )
    ),
)
COMPILER_FILES = tuple(
    f"tests/python/openhpu/compiler/**test_{name}.py"
    for name in ("casts", "out_of_range", "recipe", "service", "toolchain")
)
# The repository's own commands, which change seldom and which no user of the device runs; and processes that import
# PyTorch themselves.
TOOLS = (
    *(f"tests/python/{name}/*" for name in ("benchmarks", "commands", "ecosystem", "release")),
    "tests/python/openhpu/integration/migration/test_scripts.py",
    "tests/python/openhpu/integration/test_shared_tensors.py",
    *(f"tests/python/openhpu/observe/{name}" for name in ("insight/*", "metrics/*", "smi/test_live.py")),
    "tests/python/openhpu/settings/test_folders.py",
    "tests/python/openhpu/testing/test_plugin.py",
)
# Most of their time is that of importing DeepSpeed in each rank. Training with each stage runs each time.
DEEPSPEED_FILES = _files(
    "deepspeed", "checkpoints", "compile", "inference", "launcher", "memory", "offload", "pipeline"
)
# What lies outside of the operators, or is the same in both modes.
RANKS = _files("distributed", "failures", "node_channel", "replicas", "report", "traces", "two_nodes")
LAUNCHED = (
    "tests/lightning/guide/*",
    "tests/lightning/*/strategies/*",
    *_files("lightning", "failures", "strategies"),
)
# Several processes for each test.
TENANTS = ("tests/lightning/pytorch/datamodule/*", *_files("lightning", "roots", "tenants"))
# Libraries, gigabytes, TorchScript, compilers, and processes that import PyTorch themselves.
SELDOM = _files(
    "hpu",
    "compile_sizes",
    "custom_op_builds",
    "fork",
    "interrupts",
    "large_tensors",
    "module_lock",
    "thread_policy",
    "torchvision",
    "tracing",
)

# In the order in which they begin, the longest first: what ends last, alone, is short.
SUITES = {
    "hpu": Suite(("tests/hpu/**/test_*.py",), without=("*/test_compiled_*", "*/test_lazy_*"), period=3, turns=SELDOM),
    # The device's tests with every operator recorded and run node by node; and those of lazy mode alone.
    "lazy": Suite(
        ("tests/hpu/**/test_*.py",),
        LAZY,
        ("*/test_compiled_*", "*/test_module_lock.py"),
        period=8,
        turns=("*",),
        always=RECORDED,
    ),
    "python": Suite(
        ("tests/python/**/test_*.py",),
        without=("tests/python/openhpu/compiler/*",),
        period=3,
        turns=TOOLS,
        always=("*/insight/test_advice.py", "*/insight/test_planted.py"),
    ),
    "conformance": Suite(("tests/conformance/test_*.py",), compiles=True, seconds=600, period=3, turns=("*",)),
    "distributed": Suite(
        ("tests/distributed/**/test_*.py",), period=3, turns=RANKS, always=_files("distributed", "failures")
    ),
    "compiled": Suite(("tests/hpu/test_compiled_[!e]*.py",), COMPILED, compiles=True, period=4, turns=COMPILED_FILES),
    "compiler": Suite(("tests/python/openhpu/compiler/**/test_*.py",), compiles=True, period=4, turns=COMPILER_FILES),
    # The same tests with both versions of Lightning, one in each mode.
    "lightning": Suite(("tests/lightning/**/test_*.py",), DEEPSPEED, period=3, turns=TENANTS),
    "deepspeed": Suite(("tests/deepspeed/**/test_*.py",), DEEPSPEED, period=4, turns=DEEPSPEED_FILES),
    "lightning-next": Suite(("tests/lightning/**/test_*.py",), LAZY | LIGHTNING_NEXT, period=5, turns=LAUNCHED),
    "port": Suite(
        ("tests/port/test_*.py",),
        {"PYTHONPATH": os.pathsep.join([str(ROOT / "openhpu-port" / "src"), DEEPSPEED["PYTHONPATH"]])},
        compiles=True,
        period=3,
        turns=_files("port", "comparing"),
    ),
    "predict": Suite(
        ("tests/predict/**/test_*.py",),
        {"PYTHONPATH": os.pathsep.join(str(ROOT / name / "src") for name in ("openhpu-predict", "openhpu-record"))},
    ),
    "tpc": Suite(
        ("tests/tpc/**/test_*.py",),
        {"PYTHONPATH": str(ROOT / "openhpu-tpc" / "src")},
        compiles=True,
        period=3,
        turns=_files("tpc", "building", "intrinsics", "language", "registers"),
    ),
    "record": Suite(
        ("tests/record/**/test_*.py",),
        {"PYTHONPATH": os.pathsep.join([str(ROOT / "openhpu-record" / "src"), DEEPSPEED["PYTHONPATH"]])},
    ),
    # A part of the long suites, another one for each turn.
    "rotating": Suite(("tests/rotating/test_*.py",), compiles=True, seconds=1000),
    "distributed-lazy": Suite(("tests/distributed/**/test_*.py",), LAZY, period=6, turns=RANKS),
    # Under FUZZ=nightly, which is `make fuzz`, one test draws all programs.
    "fuzz": Suite(("tests/fuzz/test_*.py",), LAZY, compiles=True, seconds=3000 if "FUZZ" in os.environ else 120),
    "compiled-eager": Suite(
        ("tests/hpu/test_compiled_eagerly_*.py",),
        COMPILED | {"PT_HPU_LAZY_MODE": "0"},
        compiles=True,
        period=3,
        turns=("*",),
    ),
}
