"""The one table of environment variables: OpenHPU's own, then those of Gaudi's stack (`gaudi_flags.py`)."""

from __future__ import annotations

from openhpu.settings.gaudi_flags import GAUDI_FLAGS
from openhpu.settings.kinds import MAX_MODULES, Setting

_FIRST_USE = "first use of a device"

OPENHPU_VARIABLES = (
    Setting(
        "OPENHPU_BESIDE_CUDA", "bool", False, "import",
        "On a machine with a GPU and PyTorch's build for CUDA: 1 loads hpu and makes it torch.accelerator. The GPU "
        "stays usable as cuda. Without a usable GPU hpu is always loaded.",
    ),
    Setting(
        "OPENHPU_DEVICE_COUNT", "int", 8, _FIRST_USE,
        "Number of modules of this machine, and of a process's device indices, if HABANA_VISIBLE_MODULES is unset. If "
        "this variable is unset too, device_count() is at most the number of cores. Libraries use device_count() to "
        "choose how many devices to use.",
        low=1, high=MAX_MODULES,
    ),
    Setting(
        "OPENHPU_MEMORY_GB", "float", 0.0, _FIRST_USE,
        "Capacity of each device in GiB. 0 means the memory that the machine or the control group has available when "
        "the first device is opened, less a part for the host.",
        low=0, high=65536,
    ),
    Setting(
        "OPENHPU_GENERATION", "choice", "gaudi2", _FIRST_USE,
        "Generation of Gaudi whose native operators, dtypes and names the device has.",
        choices=("gaudi", "gaudi2", "gaudi3"),
    ),
    Setting(
        "OPENHPU_STRICT", "choice", "", _FIRST_USE,
        "gaudi: what a Gaudi refuses is an error, with Gaudi's text where it has one. Unset: the device permits it, "
        "and `openhpu run` lists it. See docs/differences.md. Variables that are set count more than this one.",
        choices=("", "gaudi"),
    ),
    Setting(
        "OPENHPU_OUT_OF_RANGE", "choice", "gaudi", _FIRST_USE,
        "Meaning of an index out of range for index_select, embedding, gather, scatter, advanced indexing and similar "
        "operators. gaudi: no error; a read gives zeros, and a write is dropped. error: an error, as on PyTorch's CPU "
        "device. See docs/indices.md.",
        choices=("gaudi", "error"),
    ),
    Setting(
        "OPENHPU_INT64", "choice", "exact", _FIRST_USE,
        "exact: integers of 64 bits are exact. gaudi: results wrap to the range of int32 and are counted, as on a "
        "Gaudi without PT_ENABLE_INT64_SUPPORT. Unset with OPENHPU_STRICT=gaudi: as PT_ENABLE_INT64_SUPPORT says. See "
        "docs/int64.md.",
        choices=("exact", "gaudi"),
    ),
    Setting(
        "OPENHPU_PRODUCTS", "choice", "auto", _FIRST_USE,
        "Library that computes matrix products of float32. auto: by the processor and the product's sizes. mkl: always "
        "MKL, with the bits of PyTorch's CPU device. onednn: oneDNN where it can. See docs/understand/products.md.",
        choices=("auto", "mkl", "onednn"),
    ),
    Setting(
        "OPENHPU_PROTECT_MEMORY", "bool", False, _FIRST_USE,
        "Debug mode: device memory is inaccessible outside of kernels. An access by the host crashes at its own line.",
    ),
    Setting(
        "OPENHPU_MODULE_LOCKS", "bool", True, _FIRST_USE,
        "1: a module belongs to one process at a time. 0: processes may share a module.",
    ),
    Setting(
        "OPENHPU_MODULE_WAIT_S", "float", 10.0, _FIRST_USE,
        "Seconds that a process waits for a module if other processes hold all modules that it may take. Then an "
        "error names the owners.", low=0, high=86400,
    ),
    Setting(
        "OPENHPU_SPIN_US", "int", 200, _FIRST_USE,
        "Microseconds that a device's worker, or a host thread that waits for it, polls before it sleeps. On one core "
        "they never poll.",
        low=0, high=1_000_000,
    ),
    Setting(
        "OPENHPU_NODE_COLLECTIVES", "bool", True, "creation of a process group",
        "1: ranks of one machine exchange data through shared memory. 0, or if any rank has 0: through Gloo's "
        "sockets.",
    ),
    Setting(
        "OPENHPU_CHECK_GRAPHS", "bool", False, "capture of a graph",
        "1: each replay of an HPU graph is compared with the plain call, whose effects are undone. A warning names the "
        "first result that differs, with its operator, its line and the reason. See docs/graphs.md.",
    ),
    Setting(
        "OPENHPU_CHECK_REPLICAS", "int", 0, "import",
        "After each such number of steps the ranks compare, bit for bit, the parameters and buffers that "
        "DistributedDataParallel or fully_shard keeps equal. An error names the first difference. 0: never.",
        low=0,
    ),
    Setting(
        "OPENHPU_COMPILE", "choice", "background", _FIRST_USE,
        "Lazy mode. background: recurring graphs are compiled beside the script. sync: a graph is compiled when it is "
        "first seen, while the script waits. off: no graph is compiled.",
        choices=("background", "sync", "off"),
    ),
    Setting(
        "OPENHPU_COMPILE_DEADLINE", "float", 1800.0, _FIRST_USE,
        "Seconds that the compiler may take for one graph. Then its process is killed, and the graph runs operator by "
        "operator. A script that waits for a recipe waits this long and 5 s more at most. 0: one day, the longest.",
        low=0, high=86400,
    ),
    Setting(
        "OPENHPU_HEADER_CACHE", "text", "", "compilation of a recipe",
        "Folder of the compiler's precompiled headers, 300 MB for each set of compiler options. Unset: "
        "openhpu/headers in the user's cache folder.",
    ),
    Setting(
        "OPENHPU_REPORT_DATA", "text", "", "import",
        "Folder into which each process writes the data of a report. `openhpu run` sets it.",
    ),
    Setting(
        "OPENHPU_PREDICT", "text", "", "import",
        "gaudi2, gaudi3 or a TOML file: the report of `openhpu run` and the trace of HABANA_PROFILE=1 also show what a "
        "step would take there. Needs the distribution openhpu-predict; see docs/prediction.md. `openhpu run "
        "--predict` sets it.",
    ),
    Setting(
        "OPENHPU_SMI_FOLDER", "text", "", "first use of a device, and by hl-smi",
        "Folder of the small files through which hl-smi sees this process. off: none. Unset: /dev/shm, or the folder "
        "for temporary files if there is no /dev/shm.",
    ),
)  # fmt: skip

ROWS: tuple[Setting, ...] = OPENHPU_VARIABLES + GAUDI_FLAGS

_BY_NAME = {row.name: row for row in ROWS}
_FAMILIES = tuple(row for row in ROWS if row.name.endswith("*"))


def find(name: str) -> Setting | None:
    """The row of the variable `name`, which may be a member of a family (`LOG_LEVEL_PT_FALLBACK`)."""
    row = _BY_NAME.get(name)
    if row is not None:
        return row
    for family in _FAMILIES:
        if name.startswith(family.name[:-1]):
            return family
    return None
