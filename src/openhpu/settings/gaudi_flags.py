"""The rows of Gaudi's own environment variables."""

from __future__ import annotations

from typing import Any

from openhpu.settings.kinds import MAX_MODULES, Kind, Setting

_IMPORT = "import"
_MODE = "import of habana_frameworks.torch or first use of a device, whichever comes first"
_FIRST_USE = "first use of a device"
_EACH_USE = "each use"
_COMPILE = "compilation of a function"


def _row(name: str, kind: Kind, default: Any, when: str, meaning: str, **more: Any) -> Setting:
    return Setting(name, kind, default, when, meaning, **more)


def _idle(name: str, kind: Kind, default: Any, meaning: str, **more: Any) -> Setting:
    """A variable that is parsed and validated, and changes nothing in this version."""
    return Setting(name, kind, default, "", meaning, effective=False, **more)


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
)  # fmt: skip

# These concern a graph, a compilation or a transport that this version does not have.
_GRAPHS = (
    _idle("PT_RECIPE_CACHE_IGNORE_VERSION", "bool", False, "Skip the version check of cached recipes."),
    _idle("PT_RECIPE_CACHE_DUMP_DEBUG", "bool", False, "Write the parts of each cached recipe's key."),
    _idle("PT_HPU_MAX_COMPOUND_OP_SIZE_SS", "int", 10, "The same after a synchronisation.", low=1),
    _idle("PT_HPU_ENABLE_STAGE_SUBMISSION", "bool", True, "Shorter graphs after a synchronisation."),
    _idle("PT_HPU_STAGE_SUBMISSION_MODE", "text", "0b10", "Which synchronisations shorten graphs."),
    _idle("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", "bool", False, "Graphs for ranges of shapes."),
    _idle("PT_HPU_WEIGHT_SHARING", "bool", True, "Tied parameters stay tied on the device; here they always do."),
    _idle("EXPERIMENTAL_WEIGHT_SHARING", "bool", True, "Older spelling of PT_HPU_WEIGHT_SHARING."),
    _idle("PT_HPU_INFERENCE_MODE", "bool", False, "Graphs are compiled for inference."),
    _idle("PT_HPU_DISABLE_HPUGRAPH_REPLAY_HASHCHECK", "bool", True, "Replays do not hash their arguments."),
    _idle("PT_HPU_GRAPH_DUMP", "int", 0, "Level of detail of lazy graphs' dumps.", low=0, high=3),
    _idle("PT_COMPILATION_STATS_PATH", "text", "", "File for statistics of compilations."),
    _idle("PT_COMPILE_ONLY_MODE", "bool", False, "Compile graphs without running them."),
    _idle("PT_HPU_OVERRIDE_LINEAR_MATMUL_EAGER", "bool", False, "Keep linear and matmul whole."),
    _idle("PT_HPU_WRAP_RANDOM_OPS_COMPILE", "bool", True, "Compiled random operators take a seed tensor."),
    _idle("PT_HPU_ENABLE_COMPILED_AUTOGRAD", "bool", False, "Compiled autograd."),
    _idle("PT_HPU_COMPILE_DISCARD_FROZEN_PARAMS", "bool", False, "torch.compile: free frozen parameters; here they "
          "stay, since a write to them is seen."),
    _idle("PT_HPU_COMPILE_REMOVE_UNNECESSARY_CLONES", "bool", True, "torch.compile: remove needless clones; recipes "
          "never hold any."),
    _idle("PT_HPU_USE_INPLACE_COLLECTIVE", "bool", True, "torch.compile: collectives in place; no graph holds any "
          "here."),
    _idle("PT_HPU_ENABLE_SFG", "bool", False, "torch.compile: signals out of running graphs; here one runs to its "
          "end."),
    _idle("PT_HPU_USE_CPP_PARTITIONER", "bool", True, "torch.compile: partition in C++; there is one partitioner."),
    _idle("PT_HPU_ENABLE_ALLREDUCE_GRAPH_SPLIT", "bool", True, "torch.compile: split graphs at collectives; no graph "
          "holds any here."),
    _idle("PT_HPU_REINPLACE_ADD", "bool", True, "torch.compile: additions in place; a recipe writes where it may."),
    _idle("PT_HPU_REASSIGN_FULL_COPY", "bool", True, "torch.compile: replace full copies; recipes hold none that are "
          "needless."),
    _idle("PT_HPU_REASSIGN_COPY_", "bool", True, "torch.compile: replace copy_; recipes hold none that are needless."),
    _idle("PT_HPU_USE_BOXED_INPUT", "bool", True, "torch.compile: inputs are freed early; here always."),
    _idle("PT_HPU_DISABLE_*", "bool", False, "Disable one compiler pass by name."),
    _idle("PT_HPU_REPLACE_ADAM_ADAMW", "bool", False, "Replace torch.optim's Adam by a variant with mark_step."),
    _idle("PT_HPU_EMULATE_DISTRIBUTED", "bool", False, "Emulate collectives."),
    _idle("PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK", "bool", False, "Emulate collectives in one process."),
    _idle("PT_HPU_USE_PT_STORE_SYNC", "bool", False, "Synchronise the hosts (HCL_Sync) before collectives, through "
          "PyTorch's store; here a collective begins when all ranks have come to it, so that there is nothing to add."),
    _idle("PT_ENABLE_COMM_GROUP_CACHE", "bool", False, "Share process groups of equal ranks."),
    _idle("PT_HCCL_SLICE_SIZE_MB", "int", 16, "Slice size of collectives.", low=1),
    _idle("PT_HCCL_MEMORY_ALLOWANCE_MB", "int", 0, "Device memory kept free for collectives.", low=0),
    _idle("HCCL_COMM_ID", "text", "", "Address of the collectives' coordinator."),
)  # fmt: skip

# These concern hardware or parts of the vendor's software that a software device does not have.
_HARDWARE = (
    _idle("PT_HPU_LAZY_ACC_PAR_MODE", "bool", True, "Accumulate lazy operators in a second thread."),
    _idle("PT_HPU_ENABLE_EXECUTION_THREAD", "bool", True, "Launch from a second thread; here always."),
    _idle("PT_HPU_QUEUE_SYNLAUNCHES", "bool", True, "Queue launches; here always."),
    _idle("PT_HPU_ENABLE_HPUGRAPH_THREAD", "bool", True, "Replay graphs from a second thread."),
    _idle("PT_HPU_POOL_STRATEGY", "choice", "4", "Memory manager; there is one.", choices=("0", "4")),
    _idle("PT_HPU_INITIAL_WORKSPACE_SIZE", "int", 0, "Workspace at start, in MiB.", low=0),
    _idle("PT_ENABLE_WORKSPACE_MEMORY_SHRINK", "bool", True, "Shrink the workspace."),
    _idle("PT_ENABLE_MEMORY_DEFRAGMENTATION", "bool", True, "Defragment memory; the pool coalesces instead."),
    _idle("PT_ENABLE_DEFRAGMENTATION_INFO", "bool", False, "Report defragmentations."),
    _idle("PT_HABANA_MEM_LOG_LEVEL", "int", 0, "Memory logs.", low=0, high=7),
    _idle("PT_HABANA_MEM_LOG_FILENAME", "text", "habana_log.livealloc.log", "File of the memory logs."),
    _idle("PT_HPU_POOL_LOG_FRAGMENTATION_INFO", "bool", False, "Log the pool's fragmentation."),
    _idle("PT_HPU_STOCHASTIC_ROUNDING_MODE", "choice", "1", "Stochastic rounding of casts to fp8 below the smallest "
          "normal number; here the mean is right down to 0 in both modes.",
          choices=("0", "1")),
    _idle("PT_HPU_ENABLE_EAGER_CACHE", "bool", False, "Cache of eager operators' programs."),
    _idle("PT_HPU_ENABLE_EAGER_JIT_CACHE", "bool", True, "Cache of eager operators' graphs."),
    _idle("PT_HPU_EAGER_PIPELINE_ENABLE", "bool", True, "Run eager operators asynchronously; here always."),
    _idle("PT_HPU_EAGER_4_STAGE_PIPELINE_ENABLE", "bool", True, "Stages of that pipeline."),
    _idle("PT_HPU_ENABLE_GENERIC_STREAM", "bool", True, "Streams of torch.Stream; here always."),
    _idle("PT_HPU_FORCE_USE_DEFAULT_STREAM", "bool", False, "Run everything on the default stream."),
    _idle("PT_HPU_ENABLE_RECORD_STREAM", "bool", False, "Honour record_stream; here always."),
    _idle("PT_LOG_FILE_AMOUNT", "int", 5, "Log files kept.", low=1),
    Setting("HABANA_PROFILE", "choice", "", "import", "1: a trace of the whole process, in a file that Perfetto opens. "
            "profile_api_light, which Gaudi's core sets by itself, traces nothing.",
            choices=("", "0", "1", "profile_api_light", "profile_api")),
    Setting("HABANA_PROF_CONFIG", "text", "", "import", "File of hl-prof-config's choices; unset means "
            "~/.habana/prof_config.json."),
    _idle("PT_HPU_SDPA_BC_FACTOR", "int", 0, "Slices of batch and heads in which fused attention runs; here "
          "PyTorch's kernel chooses its own.", low=0),
    _idle("PT_HPU_SDPA_QKV_SLICE_MODE_FWD", "bool", False, "Fused attention's forward in slices of query and keys; "
          "here PyTorch's kernel chooses its own."),
    _idle("PT_HPU_ENABLE_RESTORE_KV_LAYOUT", "bool", False, "Give a cache of keys and values its layout back; here it "
          "never has another."),
    _idle("RUNTIME_SCALE_PATCHING", "bool", False, "Scales of fp8 can change in compiled graphs; here they always "
          "can."),
    _idle("HABANA_VISIBLE_DEVICES", "text", "", "Devices that a container runtime passes in."),
)  # fmt: skip

GAUDI_FLAGS: tuple[Setting, ...] = _EFFECTIVE + _GRAPHS + _HARDWARE
