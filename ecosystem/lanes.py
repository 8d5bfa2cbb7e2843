"""The lanes: whose tests, on which packages, and what is left out of them, with the reason."""

from __future__ import annotations

from typing import NamedTuple


class Run(NamedTuple):
    """One pytest process of a lane."""

    title: str
    tests: tuple[str, ...]  # files, in the lane's sources
    environment: dict[str, str] = {}  # noqa: RUF012
    only: str = ""  # pytest's expression; all if empty


class Lane(NamedTuple):
    """A library's tests."""

    title: str
    runs: tuple[Run, ...]
    packages: tuple[str, ...] = ()  # what `python -m ecosystem lock` finds versions and hashes for
    source: str = ""  # the package whose source distribution has the tests; otherwise a folder here
    left_out: dict[str, str] = {}  # noqa: RUF012  # part of a test's name, why
    expected: dict[str, str] = {}  # noqa: RUF012  # part of a failing test's name, or of its message, why


EAGER = {"PT_HPU_LAZY_MODE": "0"}
LAZY = {"PT_HPU_LAZY_MODE": "1"}
_HUB = "downloads from a model hub"
_NOT_SHIPPED = "reads files that the source distribution does not ship (examples/, tests/test_configs/)"
_DDP = {"BACKEND": "hccl", "OPENHPU_DEVICE_COUNT": "4", "OMP_NUM_THREADS": "1"}

LANES: dict[str, Lane] = {
    "torch-distributed": Lane(
        title="PyTorch's own tests of torch.distributed, with hccl in nccl's place and hpu in cuda's",
        runs=(
            Run("2 ranks", ("test_hccl.py",), EAGER | _DDP | {"WORLD_SIZE": "2"}),
            Run("4 ranks, what needs more than 2", ("test_hccl.py",), EAGER | _DDP | {"WORLD_SIZE": "4"}, "group"),
            Run("2 ranks, lazy, DDP", ("test_hccl.py",), LAZY | _DDP | {"WORLD_SIZE": "2"}, "ddp"),
        ),
        left_out={"test_ddp_uneven_inputs": "a large model's steps: not done after its 400 s on two cores"},
        expected={
            "test_batch_isend_irecv_nccl": "Gloo has no messages of a rank to itself",
            "test_nccl_high_priority_stream": "asks for NCCL's own options",
            "test_ddp_profiling_torch_profiler": "asks for a record of waits in the trace, which NCCL alone writes",
        },
    ),
    "readers": Lane(
        title="Programs that read traces",
        runs=(Run("eager and lazy", ("test_trace_readers.py",)),),
        packages=("HolisticTraceAnalysis", "torch-tb-profiler", "pandas<3", "tensorboard"),
    ),
    "deepspeed": Lane(
        title="DeepSpeed: stages of ZeRO x offload x precision x ranks, beside its CPU accelerator",
        runs=(
            Run("all cells, eager", ("test_matrix.py",), EAGER | {"RANKS_PATIENCE_S": "900"}),
            Run("operators that DeepSpeed compiles, eager", ("test_compiled.py",), EAGER | {"RANKS_PATIENCE_S": "900"}),
            Run(
                "two ranks, lazy, in recipes",
                ("test_recipes.py",),
                LAZY | {"OPENHPU_COMPILE": "sync", "RANKS_PATIENCE_S": "900"},
            ),
        ),
        packages=("deepspeed==0.19.8",),
    ),
    "accelerate": Lane(
        title="accelerate's own tests",
        runs=(
            Run("all, eager", ("tests",), EAGER),
            Run(
                "core, lazy",
                tuple(f"tests/test_{name}.py" for name in ("accelerator", "optimizer", "grad_sync", "multidevice")),
                LAZY,
            ),
        ),
        packages=(
            "accelerate==1.15.0", "transformers==5.23.0", "datasets", "evaluate", "parameterized", "scikit-learn",
            "pytest-subtests", "torchdata", "pyarrow<24",
        ),
        source="accelerate",
        left_out={
            "FeatureExamplesTests": _NOT_SHIPPED,
            "ExampleDifferenceTests": _NOT_SHIPPED,
            "TpuConfigTester": _NOT_SHIPPED,
            "ToFSDP2Tester": _NOT_SHIPPED,
            "ModelEstimatorTester": _HUB,
            "TestLoadCheckpointAndDispatchWithBroadcast": _HUB,
        },
        expected={
            "test_configs": _NOT_SHIPPED,
            "huggingface.co": _HUB,
            "MonthDayNano": "datasets pickles a type of pyarrow's that can't be, on the CPU too",
            "scripts/test_script.py": "stops where datasets pickles that type, on the CPU too",
        },
    ),
}  # fmt: skip
