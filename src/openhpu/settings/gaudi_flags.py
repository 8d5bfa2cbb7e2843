"""The rows of Gaudi's own environment variables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from openhpu.settings.kinds import MAX_MODULES, Kind, Setting

_IMPORT = "import"
_MODE = "import of habana_frameworks.torch or first use of a device, whichever comes first"
_FIRST_USE = "first use of a device"
_EACH_USE = "each use"
_COMPILE = "compilation of a function"


def _row(name: str, kind: Kind, default: Any, when: str, meaning: str, **more: Any) -> Setting:
    return Setting(name, kind, default, when, meaning, **more)


def _idle(line: str) -> Setting:
    """A variable that is parsed and validated, and changes nothing in this version: a line of idle.tsv."""
    name, kind, default, allowed, meaning = line.split("\t")
    choices = tuple(allowed.split(",")) if kind == "choice" else ()
    low, high = (int(n) if n else None for n in ("" if choices else allowed).partition("..")[::2])
    row = Setting(name, cast("Kind", kind), None, "", meaning, effective=False, choices=choices, low=low, high=high)
    return replace(row, default=row.parse(default))


_LOG_LEVELS = {"low": 0, "high": 6}

_EFFECTIVE = (
    _row("PT_HPU_RECIPE_CACHE_CONFIG", "text", "", _MODE,
         "Lazy mode's recipe cache on disk: path,delete_on_init,max_MB. Unset: openhpu/recipes in the user's cache "
         "folder, 1,024 MB. Given with an empty path: no cache on disk."),
    _row("PT_RECIPE_CACHE_PATH", "text", "", _MODE, "Folder of the recipe cache (older spelling)."),
    _row("PT_CACHE_FOLDER_DELETE", "bool", False, _MODE, "Empty the recipe cache at start (older spelling)."),
    _row("PT_CACHE_FOLDER_SIZE_MB", "int", 1024, _MODE, "Size limit of the recipe cache (older spelling).", low=0),
    _row("PT_HPU_PGM_ENABLE_CACHE", "bool", True, _MODE, "Whether recipes are cached on disk."),
    _row("HABANA_PGM_LRU_MAX", "int", 100000, _MODE,
         "Number of graphs, with their recipes, kept in memory. vm.max_map_count also limits the number of recipes.",
         low=3),
    _row("PT_HPU_MAX_COMPOUND_OP_SIZE", "int", (1 << 63) - 1, _MODE,
         "Operators after which a lazy graph is flushed; at most 262,144.", low=1),
    _row("DATALOADER_FALLBACK_EN", "bool", True, _EACH_USE,
         "1: HabanaDataLoader uses PyTorch's data loader for data that it does not decode itself. 0: that is an "
         "error."),
    _row("PT_HPU_MEDIA_PIPE", "bool", True, _EACH_USE,
         "1: HabanaDataLoader decodes images of a folder on threads. 0: it is PyTorch's data loader."),
    _row("HABANA_VISIBLE_MODULES", "int list", None, _FIRST_USE,
         "Module numbers of the process's devices, in the order of their indices. If it is unset and there is no "
         "launcher, index 0 takes the first free module of the machine and the others the next free ones.",
         low=0, high=MAX_MODULES - 1),
    _row("HLS_MODULE_ID", "int", None, _FIRST_USE,
         "The one module that this process owns. Every device index means it.", low=0, high=MAX_MODULES - 1),
    _row("LOCAL_RANK", "int", -1, _FIRST_USE,
         "Set by launchers: the process owns the LOCAL_RANK-th module, and every device index means it. A negative "
         "value means no launcher."),
    _row("LOCAL_WORLD_SIZE", "int", 1, _FIRST_USE,
         "Set by launchers: number of processes on this machine, which share its cores. A process has at least as "
         "many device indices."),
    _row("PT_HPU_LAZY_MODE", "choice", "0", _MODE,
         "0: eager. 1: lazy. Operators are recorded into graphs, which run at the next step. Recurring graphs are "
         "compiled.", choices=("0", "1")),
    _row("PT_HPU_ENABLE_LAZY_COLLECTIVES", "bool", True, "creation of a process group",
         "Lazy mode. 1: a collective is a part of a step. 0: it ends the step, as mark_step does, and a captured graph "
         "cannot hold it. With OPENHPU_STRICT=gaudi the default is 0.", strict=False),
    _row("PT_ENABLE_INT64_SUPPORT", "bool", True, _FIRST_USE,
         "With OPENHPU_STRICT=gaudi. 1: int64 keeps its width. 0: integers wrap to int32, and copies of larger ones to "
         "the device are an error. Unset: 0 in lazy mode and on the first generation, otherwise 1. Without "
         "OPENHPU_STRICT int64 always keeps its width."),
    _row("PT_HPU_AUTOLOAD", "choice", "-1", _IMPORT,
         "0: `import habana_frameworks.torch` loads the device. 1 and -1: `import torch` loads it; with "
         "OPENHPU_STRICT=gaudi -1 does so in eager mode only.",
         choices=("-1", "0", "1")),
    _row("PT_HPU_GPU_MIGRATION", "bool", False, _IMPORT,
         "Scripts written for CUDA run on hpu, as after `import habana_frameworks.torch.gpu_migration`."),
    _row("GPU_MIGRATION_LOG_LEVEL", "choice", "0", _IMPORT,
         "Log of GPU migration: each CUDA name with its line and what became of it. 0: none. 1: to the console and to "
         "gpu_migration.log in the folder HABANA_LOGS. 2: to the file. 3: to the file, without lines of PyTorch's own.",
         choices=("0", "1", "2", "3")),
    _row("PT_HPU_EAGER_ENABLE_GRADIENT_VIEW_LAYOUT_OPT", "bool", False, _FIRST_USE,
         "Eager mode: a gradient keeps the layout that the backward pass gave it, without a copy into its "
         "parameter's layout (torch.autograd.enforce_grad_layout_policy). It holds on the thread that uses the "
         "device first."),
    _row("PT_HPU_PLACE_ON_CPU", "text", "", _FIRST_USE,
         "Operators that may fall back to the CPU. Unset: all. none: each fallback is an error. Otherwise: a list of "
         "names, separated by commas."),
    _row("PT_HPU_POOL_MEM_ACQUIRE_PERC", "int", 100, _FIRST_USE,
         "Share of the device's memory that the pool takes, in percent.", low=1, high=100),
    _row("PT_HABANA_POOL_SIZE", "int", 24, _FIRST_USE,
         "Largest size of the memory pool in GiB; 24 means the whole device.", low=1, high=65536),
    _row("PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST", "text", "", _FIRST_USE,
         "File that replaces the list of operators that autocast runs in lower precision: one per line, # comments."),
    _row("PT_HPU_AUTOCAST_FP32_OPS_LIST", "text", "", _FIRST_USE,
         "File that replaces the list of operators that autocast runs in float32: one per line, # comments."),
    _row("PT_HPU_METRICS_FILE", "text", "", _IMPORT,
         "File for the metrics. The rank, and the number of a child process, are put before its extension."),
    _row("PT_HPU_METRICS_FILE_FORMAT", "choice", "json", _IMPORT,
         "Format of that file.", choices=("json", "text")),
    _row("PT_HPU_METRICS_DUMP_TRIGGERS", "choice list", ("process_exit",), _IMPORT,
         "Moments when metrics are written.", choices=("process_exit", "mark_step", "metric_change")),
    _row("PT_HPU_METRICS_GC_DETAILS", "bool", False, _EACH_USE,
         "Whether the metric graph_compilation lists each recipe with its time."),
    _row("PT_HPUGRAPH_DISABLE_TENSOR_CACHE", "bool", False, _EACH_USE,
         "wrap_in_hpu_graph: graphs keep no memory for inputs and results."),
    _row("PT_HPUGRAPH_ENABLE_DRY_RUN", "bool", False, _EACH_USE,
         "A capture has no effect except the graph."),
    _row("PT_HPU_ENABLE_CACHE_METRICS", "bool", False, _IMPORT,
         "Whether the metric recipe_cache exists."),
    _row("PT_HPU_COMPILE_USE_RECIPES", "bool", True, _COMPILE,
         "torch.compile. 1: graphs are captured and run as recipes. 0: they run operator by operator."),
    _row("PT_HPU_COMPILE_DECOMPOSITION_MODE", "choice", "habana", _COMPILE,
         "torch.compile: decomposition of operators. habana and none: no operator is decomposed. core_aten: "
         "operators are decomposed into PyTorch's core set.", choices=("habana", "core_aten", "none")),
    _row("PT_HPU_KEEP_INPUT_MUTATIONS", "bool", True, _COMPILE,
         "torch.compile. 1: the graph writes its inputs. 0: copies after the graph do."),
    _row("PT_HPU_USE_INPLACE_INDEX_COPY", "bool", True, _COMPILE,
         "torch.compile. 1: index_copy and similar operators write into an argument. 0: they write into a copy of it "
         "first."),
    _row("PT_HPU_USE_EAGER_FALLBACK", "bool", True, _COMPILE,
         "torch.compile. 1: operators that no recipe can hold run eagerly between recipes. 0: they are an error."),
    _row("PT_HPU_COMPILE_GRAPH_FREEZE", "bool", False, _COMPILE,
         "torch.compile: weights of inference graphs of fixed sizes are constants of their recipes, until they are "
         "written or replaced; at most 64 MiB for each graph."),
    _row("PT_HPU_USE_INFERENCE_COMPILER", "bool", True, _COMPILE,
         "torch.compile. 1: graphs without gradients are compiled for inference. 0: they are compiled as forward "
         "graphs, whose weights are inputs."),
    _row("PT_HPU_FORCE_STATIC_COMPILE", "bool", False, _COMPILE,
         "torch.compile. 1: each size has a recipe of its own. 0: graphs that differ only in sizes share one."),
    _row("GRAPH_VISUALIZATION", "bool", False, _EACH_USE,
         "Write each compiled graph as a Python program, as SVG and as pbtxt, at the latest when the next "
         "torch.hpu.synchronize() returns."),
    _row("PT_HPU_GRAPH_DUMP_MODE", "choice", "", _EACH_USE,
         "compile, all: write each compiled graph as a Python program and in PT_HPU_GRAPH_DUMP_FORMAT. The other "
         "values write nothing, because eager operators have no graphs.",
         choices=("", "eager", "compile", "compile_fx", "all")),
    _row("PT_HPU_GRAPH_DUMP_FORMAT", "choice", "pbtxt", _EACH_USE,
         "Format of these files beside the program.", choices=("pbtxt", "svg", "graphml")),
    _row("PT_HPU_GRAPH_DUMP_PREFIX", "text", ".graph_dumps", _EACH_USE, "Folder of these files."),
    _row("HABANA_LOGS", "text", "", _FIRST_USE,
         "Folder of pytorch_log.txt; unset means ~/.habana_logs."),
    _row("ENABLE_CONSOLE", "bool", False, _FIRST_USE,
         "Whether log messages go to stderr as well."),
    _row("LOG_LEVEL_ALL", "int", None, _FIRST_USE,
         "Log level of everything: 0 trace, 1 debug, 2 info, 3 warning, 4 error, 5 critical, 6 off.", **_LOG_LEVELS),
    _row("LOG_LEVEL_ALL_PT", "int", None, _FIRST_USE,
         "Log level of the PyTorch loggers; wins over LOG_LEVEL_ALL.", **_LOG_LEVELS),
    _row("LOG_LEVEL_PT_*", "int", None, _FIRST_USE,
         "Log level of one PyTorch logger; wins over LOG_LEVEL_ALL_PT. Loggers: FALLBACK (CPU fallbacks, 2), DEVICE, "
         "BRIDGE, LAZY, DYNAMIC_SHAPE (recompilations), RECIPE_STATS, SYNHELPER (copies), DEVMEM.", **_LOG_LEVELS),
    _row("PT_HPU_LOG_MOD_MASK", "mask", 0, _FIRST_USE,
         "Older choice of loggers, where LOG_LEVEL_* is unset: 1 DEVICE, 2 KERNEL, 4 BRIDGE, 8 SYNHELPER, "
         "10 DISTRIBUTED, 20 LAZY, 40 DEVMEM, 80 FALLBACK."),
    _row("PT_HPU_LOG_TYPE_MASK", "mask", 0xF, _FIRST_USE,
         "Which messages of these loggers: 1 errors, 2 warnings, 4 trace, 8 debug and information."),
    _row("HABANA_PROFILE", "choice", "", _IMPORT,
         "1: a trace of the whole process, in a file that Perfetto opens. profile_api_light, which Gaudi's core sets "
         "by itself, traces nothing.", choices=("", "0", "1", "profile_api_light", "profile_api")),
    _row("HABANA_PROF_CONFIG", "text", "", _IMPORT,
         "File of hl-prof-config's choices; unset means ~/.habana/prof_config.json."),
)  # fmt: skip

# They concern a graph, a compilation, a transport or hardware that this version does not have.
_IDLE = Path(__file__).with_name("idle.tsv").read_text(encoding="utf-8").splitlines()[1:]

GAUDI_FLAGS: tuple[Setting, ...] = (*_EFFECTIVE, *map(_idle, _IDLE))
