"""The one table of environment variables: OpenHPU's own, then those of Gaudi's stack (`gaudi_flags.py`)."""

from __future__ import annotations

from openhpu.settings.gaudi_flags import GAUDI_FLAGS
from openhpu.settings.kinds import MAX_MODULES, Setting

_FIRST_USE = "first use of a device"

OPENHPU_VARIABLES = (
    Setting(
        "OPENHPU_BESIDE_CUDA", "bool", False, "import",
        "Beside PyTorch's build for CUDA on a machine with a GPU: whether hpu is loaded and is torch.accelerator, with "
        "the GPU still usable as cuda. Without a usable GPU hpu is loaded anyhow.",
    ),
    Setting(
        "OPENHPU_DEVICE_COUNT", "int", 8, _FIRST_USE,
        "Number of this machine's modules, and of a process's indices, where HABANA_VISIBLE_MODULES is unset. Where "
        "this is unset, too, device_count(), by which libraries choose how many devices to use, is at most the number "
        "of cores.",
        low=1, high=MAX_MODULES,
    ),
    Setting(
        "OPENHPU_MEMORY_GB", "float", 0.0, _FIRST_USE,
        "Capacity of each device in GiB; 0 means what the machine (or the control group) has available when the first "
        "device is opened, less a part for the host's side.",
        low=0, high=65536,
    ),
    Setting(
        "OPENHPU_GENERATION", "choice", "gaudi2", _FIRST_USE,
        "Generation whose native operators, dtypes and names are followed.",
        choices=("gaudi", "gaudi2", "gaudi3"),
    ),
    Setting(
        "OPENHPU_OUT_OF_RANGE", "choice", "gaudi", _FIRST_USE,
        "What an index out of range means to index_select, embedding, gather, scatter, advanced indexing and their "
        "relatives: no error, as on a Gaudi (reading gives zeros, writing changes nothing), or an error, as on "
        "PyTorch's CPU device. See docs/indices.md.",
        choices=("gaudi", "error"),
    ),
    Setting(
        "OPENHPU_INT64", "choice", "exact", _FIRST_USE,
        "Integers of 64 bits: exact, or as on a Gaudi without PT_ENABLE_INT64_SUPPORT, where they are computed in 32 "
        "bits: results wrap to the range of int32 and are counted. See docs/int64.md.",
        choices=("exact", "gaudi"),
    ),
    Setting(
        "OPENHPU_PROTECT_MEMORY", "bool", False, _FIRST_USE,
        "Debug mode: device memory is inaccessible outside kernels, so that a host access crashes at the spot.",
    ),
    Setting(
        "OPENHPU_MODULE_LOCKS", "bool", True, _FIRST_USE,
        "Whether a module belongs to one process at a time.",
    ),
    Setting(
        "OPENHPU_MODULE_WAIT_S", "float", 10.0, _FIRST_USE,
        "Seconds that a process waits for a module while others hold all that it may take. Then an error names the "
        "holders.", low=0, high=86400,
    ),
    Setting(
        "OPENHPU_SPIN_US", "int", 200, _FIRST_USE,
        "Microseconds that a device's worker, or a host that waits for it, polls before it sleeps; none on one core.",
        low=0, high=1_000_000,
    ),
    Setting(
        "OPENHPU_NODE_COLLECTIVES", "bool", True, "creation of a process group",
        "Whether collectives of ranks that are on one machine go through memory which all of them have; else, and "
        "where one rank says no, through Gloo's sockets.",
    ),
    Setting(
        "OPENHPU_CHECK_REPLICAS", "int", 0, "import",
        "Every so many steps the ranks compare, bit for bit, the parameters and buffers that DistributedDataParallel "
        "or fully_shard gives all of them; the first that differs is an error that names it. 0: never.",
        low=0,
    ),
    Setting(
        "OPENHPU_COMPILE", "choice", "background", _FIRST_USE,
        "Lazy mode: graphs that recur are compiled in the background, at first sight while the script waits (sync), "
        "or not at all.",
        choices=("background", "sync", "off"),
    ),
    Setting(
        "OPENHPU_COMPILE_DEADLINE", "float", 1800.0, _FIRST_USE,
        "Seconds that the compiler may take for one graph. Then its process is killed, which helps where it hangs, and "
        "the graph runs operator by operator. A script that waits for a recipe waits so long, at most 5 s more. 0: a "
        "day, the longest.",
        low=0, high=86400,
    ),
    Setting(
        "OPENHPU_HEADER_CACHE", "text", "", "compilation of a recipe",
        "Folder in which the compiler's precompiled headers are kept, 300 MB for each set of its options. Unset means "
        "openhpu/headers in the user's cache folder.",
    ),
    Setting(
        "OPENHPU_REPORT_DATA", "text", "", "import",
        "Folder into which each process writes what a report is made of; `openhpu run` sets it.",
    ),
    Setting(
        "OPENHPU_SMI_FOLDER", "text", "", "first use of a device, and by hl-smi",
        "Folder of the small files through which hl-smi sees this process; off: none. Unset means /dev/shm, or the "
        "folder for temporary files where there is none.",
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
