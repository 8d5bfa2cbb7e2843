"""The lanes: their tests, packages, and exclusions with the reason. Most of it is in ecosystem/lanes.toml."""

import tomllib
from collections.abc import Iterable
from typing import Any, NamedTuple

from commands import ROOT

TABLE = ROOT / "ecosystem" / "lanes.toml"


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
    programs: tuple[str, ...] = ()  # of these, those whose programs have libraries of their own
    alone: tuple[str, ...] = ()  # packages whose dependencies are not wanted: what is needed of them is in `packages`
    checkout: str = ""  # a repository of GitHub that has no package; a variable of that name may give its folder
    apart: bool = False  # of the checkout the tests alone are used: the package is in `alone`
    inside: str = ""  # the folder of the checkout that has the tests and their configuration of pytest, pytest.ini
    listed: str = ""  # from there, the workflow of GitHub whose TEST_LIST chooses the tests; `runs` is empty then
    source: str = ""  # the package whose source distribution has the tests; otherwise a folder here
    folder: str = ""  # this project's own tests: they keep its configuration of pytest
    beside: tuple[str, ...] = ()  # folders of packages in the environment that go before it
    left_out: dict[str, str] = {}  # noqa: RUF012  # part of a test's name, why
    expected: dict[str, str] = {}  # noqa: RUF012  # part of a failing test's name, or of its message, why
    torchvision: bool = False  # whether it needs torchvision, which lies beside the environment
    times: str = ""  # the module that measures the lane's steps, where there are steps to measure


EAGER = {"PT_HPU_LAZY_MODE": "0"}
LAZY = {"PT_HPU_LAZY_MODE": "1"}
# Recipes have tests of their own; a run with them is named.
_NODES = {"OPENHPU_COMPILE": "off"}
_COMPILED = {"OPENHPU_COMPILE": "sync"}
_BOTH = (Run("eager", (".",), EAGER), Run("lazy", (".",), LAZY | _NODES))
_DDP = {"BACKEND": "hccl", "OPENHPU_DEVICE_COUNT": "4", "OMP_NUM_THREADS": "1"}

# Of tests that count modules and start a process for each: as many as a server has, each with the work of a thread.
LISTED = EAGER | {"OPENHPU_DEVICE_COUNT": "8", "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": "-p ecosystem.preloaded"}

# Two jobs of four ranks at a time, of which one works; the first of them compiles what it needs.
_RANKS = {"RANKS_MOST": "8", "RANKS_PATIENCE_S": "900"}

_VLLM_FILES = tomllib.loads((ROOT / "ecosystem" / "vllm" / "unit_tests.toml").read_text())
_VLLM_LAZY = tuple(
    f"ops/test_hpu_{name}.py" for name in ("awq", "compressed_tensors", "fp8", "fused_moe", "gptq", "layernorm")
)
_VLLM = {"OPENHPU_MEMORY_GB": "2", "VLLM_NO_USAGE_STATS": "1"}
_VLLM_MEMORY = {"rotary embeddings": {"OPENHPU_MEMORY_GB": "12"}}
_INC_FILES = (
    "block_wise",
    "calibration_counter",
    "fakequant",
    "fp8_config",
    "qdq",
    "quarot",
    "runtime_scale_patching",
    "save_load",
    "scalar",
    "scale_method_config",
)
_INC = LAZY | _NODES | {"INC_PT_ONLY": "1", "OPENHPU_MEMORY_GB": "4"}
# What is served, by parts: title, file, pytest's expression.
_VLLM_SERVING = (
    ("tokens of models", "test_serving.py", "test_tokens"),
    ("warm-up", "test_serving.py", "test_warm_up or no_new_graphs"),
    ("ranks", "test_serving.py", "test_ranks"),
    ("the server, without graphs", "test_server.py", "plain"),
    ("the server, with graphs", "test_server.py", "graphs"),
    ("the server's end, and what it refuses", "test_server.py", "end or large or ranks or report or parallel"),
    ("tokens of models with HPU graphs", "test_serving.py", "test_tokens and compile"),
    ("features", "test_features.py", ""),
    ("the plugin's unit tests as docs/ci.md runs them", "test_ci.py", ""),
    ("simulated serving", "test_simulated.py", ""),
    ("a kernel in TPC-C in a layer", "test_kernels.py", ""),
    ("two machines", "test_several.py", ""),
    ("questions answered by simulated serving", "test_questions.py", ""),
)


def _vllm_files(files: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"tests/unit_tests/{file}" for file in files)


def _vllm_serving(mode: str, environment: dict[str, str], parts: tuple[int, ...]) -> tuple[Run, ...]:
    folder = ROOT / "ecosystem" / "vllm"
    chosen = [_VLLM_SERVING[part] for part in parts]
    # The plugin's folder has a package `tests`, too.
    own = {file: {"PYTHONSAFEPATH": "1"} for file in ("test_ci.py", "test_several.py")}
    return tuple(
        Run(f"serving: {what}, {mode}", (str(folder / file),), environment | _VLLM | own.get(file, {}), only)
        for what, file, only in chosen
    )


# Of the lanes that do not run all of their folder in eager and in lazy mode.
_RUNS = {
    "torch-distributed": (
        Run("2 ranks", ("test_hccl.py",), EAGER | _DDP | {"WORLD_SIZE": "2"}),
        Run("4 ranks, what needs more than 2", ("test_hccl.py",), EAGER | _DDP | {"WORLD_SIZE": "4"}, "group"),
        Run("2 ranks, lazy, DDP", ("test_hccl.py",), LAZY | _DDP | {"WORLD_SIZE": "2"}, "ddp"),
    ),
    "readers": (Run("eager and lazy", ("test_trace_readers.py",)),),
    "deepspeed": (
        *(
            Run(
                f"cells of {ranks}, eager",
                ("test_matrix.py",),
                EAGER | _RANKS,
                f"test_cell and not nvme and -{ranks[0]}]",
            )
            for ranks in ("1 rank", "2 ranks", "4 ranks")
        ),
        Run("cells with files (NVMe), eager", ("test_matrix.py",), EAGER | _RANKS, "test_cell and nvme"),
        Run("from cell to cell, eager", ("test_matrix.py",), EAGER | _RANKS, "test_round_trips"),
        Run("operators that DeepSpeed compiles, eager", ("test_compiled.py",), EAGER | _RANKS),
        Run("two ranks, lazy, in recipes", ("test_recipes.py",), LAZY | _COMPILED | _RANKS),
    ),
    "deepspeed-tests": (),
    "accelerate": (
        Run("all, eager", ("tests",), EAGER),
        Run(
            "core, lazy",
            tuple(f"tests/test_{name}.py" for name in ("accelerator", "optimizer", "grad_sync", "multidevice")),
            LAZY,
        ),
    ),
    "transformers": (
        *_BOTH,
        Run(
            "lazy, compiled", ("test_models.py",), LAZY | _COMPILED, "(GPT2 or Llama or ViT) and (forward or backward)"
        ),
    ),
    "lightning-habana": (Run("eager", ("test_released.py",), EAGER), Run("lazy", ("test_released.py",), LAZY)),
    "vllm": (
        *_vllm_serving("eager", EAGER, (0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12)),
        *_vllm_serving("lazy, node by node", LAZY | _NODES, (0, 4, 11)),
        *_vllm_serving("lazy, in recipes", LAZY, (6, 7, 10)),
        *(
            Run(f"unit tests: {what}, eager", _vllm_files(files), EAGER | _VLLM | _VLLM_MEMORY.get(what, {}))
            for what, files in _VLLM_FILES.items()
        ),
        Run("unit tests: quantised layers and norms, lazy", _vllm_files(_VLLM_LAZY), LAZY | _NODES | _VLLM),
    ),
    "neural-compressor": (
        Run("layers and functions, lazy", ("unit_tests/test_layers", "unit_tests/test_functions"), _INC),
        Run("models and formats, lazy", tuple(f"unit_tests/test_{name}.py" for name in _INC_FILES), _INC),
        Run("interface, lazy", ("test_register_apis.py",), _INC),
    ),
}


_OPTIMUM = ROOT / "ecosystem" / "optimum_habana"
_OPTIMUM_HERE = tuple(str(_OPTIMUM / f"test_{name}.py") for name in ("configuration", "models", "port", "trainer"))
# Its repository has the package, too, of another version than the released one; it also has a package `tests`.
_RELEASED = {"PYTHONSAFEPATH": "1", "PYTEST_ADDOPTS": "--import-mode=append", "OPENHPU_MEMORY_GB": "4"}
# By pytest's expressions for the cells of examples.toml, so that each part fits a budget.
_OPTIMUM_COMMANDS = {
    "language models": "(clm or mlm or LoRA) and not recipes",
    "classes, questions, summaries, translations": "(glue or questions or summaries or translations) and not recipes",
    "images and speech": "(images or audio or speech) and not recipes",
    "generation": "generation and not (cards or fp8 or adapters or recipes)",
    "generation in fp8 and with adapters": "generation and (fp8 or adapters)",
    "generation on two cards": "generation and cards",
    "stable diffusion": "diffusion and not recipes",
    "in recipes, language models and classes": "recipes and (clm or mlm or glue)",
    "in recipes, sequences and images": "recipes and (summaries or generation or diffusion)",
}
# Its own tests: both they and this project have a package `tests`, and their conftest is for its baselines of numbers.
_OWN = _RELEASED | {"PYTEST_ADDOPTS": "--import-mode=importlib --noconftest"}
_OPTIMUM_TRAINER = ("gaudi_configuration", "trainer_distributed", "trainer", "trainer_seq2seq", "habana_profiler_unit")
_RUNS["optimum-habana"] = (
    Run("eager", _OPTIMUM_HERE, EAGER | _RELEASED),
    Run("lazy", _OPTIMUM_HERE, LAZY | _NODES | _RELEASED),
    *(
        Run(f"commands of its READMEs: {what}", (str(_OPTIMUM / "test_examples.py"),), _RELEASED, cells)
        for what, cells in _OPTIMUM_COMMANDS.items()
    ),
    Run(
        "its own tests of the trainer, lazy",
        tuple(f"tests/test_{name}.py" for name in _OPTIMUM_TRAINER),
        LAZY | _NODES | _OWN,
    ),
    *(
        Run(f"its own tests of {name}, lazy", (f"tests/transformers/tests/models/{name}",), LAZY | _NODES | _OWN)
        for name in ("bert", "gpt2", "llama", "t5", "vit")
    ),
)


def _lane(name: str, given: dict[str, Any]) -> Lane:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return Lane(runs=_RUNS.get(name, _BOTH), **values)


LANES = {name: _lane(name, given) for name, given in tomllib.loads(TABLE.read_text()).items()}
