"""Which devices a process has, worked out from the environment."""

import hashlib
import os
from typing import NamedTuple

from openhpu._machine import device_memory, usable_cores  # not the core: settings are read without PyTorch, too
from openhpu.settings.access import get, is_set, is_strict
from openhpu.settings.kinds import MAX_MODULES, SettingError

GIB = 1 << 30
_WHOLE_POOL = 24  # PT_HABANA_POOL_SIZE's default, which means "as much as there is"

# What launchers say: torchrun, DeepSpeed's, Open MPI. What names a job: the launcher's run, or the port at which the
# ranks meet; and which part of it, where one machine stands for several nodes.
_JOB = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
_NODE = ("GROUP_RANK", "CROSS_RANK")
_PROCESSES = ("LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")


class Job(NamedTuple):
    """A launcher's processes on this machine, which take free modules together: a name that they share, and the rank
    of this one among `size`."""

    name: str
    rank: int
    size: int


class DeviceSetup(NamedTuple):
    """The configuration of the core, as its function `configure` takes it, and `device_count`.

    `modules`: module number of each device that the process opens; `floating`: these are the machine's modules, and
    each device gets a free one of them when it is opened. `job`: the name of a launcher's job, whose processes get
    free modules of `machine`; `modules` is then the one of this process on an idle machine. `job_rank`, `job_size`: its
    local rank, and the number of processes on this machine. `visible`: number of indices that scripts may use; when
    `modules` is one module, every index means that. `device_count`: what the function of that name reports, by which
    libraries choose how many devices to use. `module_wait_s`: how long to wait for a module that is in use.
    `memory_bytes`: capacity of each device. `spin_us`: how long a worker or a waiting host polls before it sleeps.
    `processes`: how many of a launcher's share this machine's cores.
    """

    modules: tuple[int, ...]
    floating: bool
    machine: tuple[int, ...]
    job: str
    job_rank: int
    job_size: int
    visible: int
    device_count: int
    module_wait_s: float
    memory_bytes: int
    protect_memory: bool
    lock_modules: bool
    spin_us: int
    processes: int


def device_setup() -> DeviceSetup:
    """The devices of this process, from the environment as it is now. Raises SettingError."""
    modules, floating, visible, count = _modules()
    job = job_of_process() or Job("", 0, 1)
    return DeviceSetup(
        modules=modules,
        floating=floating,
        machine=machine_modules() if job.name else (),
        job=job.name,
        job_rank=job.rank,
        job_size=job.size,
        visible=min(visible, MAX_MODULES),
        device_count=min(count, MAX_MODULES),
        module_wait_s=get("OPENHPU_MODULE_WAIT_S"),
        memory_bytes=_memory_bytes(),
        protect_memory=get("OPENHPU_PROTECT_MEMORY"),
        lock_modules=get("OPENHPU_MODULE_LOCKS"),
        spin_us=get("OPENHPU_SPIN_US"),
        processes=max(1, get("LOCAL_WORLD_SIZE")),
    )


def machine_modules() -> tuple[int, ...]:
    """The modules that this machine's processes may use, whichever of them a launcher gave to this one."""
    listed: tuple[int, ...] | None = get("HABANA_VISIBLE_MODULES")
    return listed or tuple(range(get("OPENHPU_DEVICE_COUNT")))


def job_of_process() -> Job | None:
    """The job whose ranks take free modules together. None where there is no launcher, where the user chose modules
    (HABANA_VISIBLE_MODULES, HLS_MODULE_ID), without locks, and with OPENHPU_STRICT=gaudi: there the local rank is the
    place of the process's module among those that it may see."""
    rank: int = get("LOCAL_RANK")
    chosen = is_set("HABANA_VISIBLE_MODULES") or is_set("HLS_MODULE_ID")
    if rank < 0 or chosen or is_strict() or not get("OPENHPU_MODULE_LOCKS"):
        return None
    said = [os.environ.get(name, "") for name in (*_JOB, *_NODE)]
    if not os.environ.get("MASTER_PORT"):
        said.append(f"started by {os.getppid()}")
    name = hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]
    sizes = (os.environ.get(variable, "") for variable in _PROCESSES)
    size = next((int(text) for text in sizes if text.strip().isdecimal()), 1)
    return Job(name, rank, max(size, rank + 1))


def module_of_rank(local_rank: int) -> int:
    """The module of a local rank, among those that this machine's processes may use. Raises SettingError."""
    modules = machine_modules()
    if 0 <= local_rank < len(modules):
        return modules[local_rank]
    if local_rank >= len(modules) and _listed_by_ray():
        return modules[0]
    raise no_module(local_rank, modules)


def _listed_by_ray() -> bool:
    """Whether Ray set HABANA_VISIBLE_MODULES, for this worker alone: the list is then shorter than its local rank.

    A worker is a child of Ray's raylet, which says its number. The processes that a worker starts are none.
    """
    left_as_it_was = os.environ.get("RAY_EXPERIMENTAL_NOSET_HABANA_VISIBLE_MODULES", "").lower() in ("1", "true")
    is_worker = os.environ.get("RAY_RAYLET_PID") == str(os.getppid())
    return is_set("HABANA_VISIBLE_MODULES") and is_worker and not left_as_it_was


def _modules() -> tuple[tuple[int, ...], bool, int, int]:
    """The first four fields of a DeviceSetup."""
    modules = machine_modules()
    listed, chosen = is_set("HABANA_VISIBLE_MODULES"), is_set("OPENHPU_DEVICE_COUNT")
    rank: int = get("LOCAL_RANK")
    own: int | None = get("HLS_MODULE_ID")
    if rank < 0 and own is None:
        # Libraries start a process, or put a part of a model, on each device that device_count() names. A software
        # device has no processor of its own: unless somebody chose, there are no more of them than cores. The other
        # modules' indices are there for scripts that name them.
        count = len(modules) if listed or chosen else min(len(modules), usable_cores())
        return modules, not listed, len(modules), count
    # A launcher's process owns one module and means it by every index.
    if own is None:
        own = module_of_rank(rank)
    if listed:
        return (own,), False, len(modules), len(modules)
    count = max(len(modules) if chosen else 1, get("LOCAL_WORLD_SIZE"), rank + 1)
    return (own,), False, max(len(modules), count), count


def no_module(rank: int, modules: tuple[int, ...]) -> SettingError:
    """The error of a launcher's process for which there is no module."""
    there = f"this machine has {len(modules)}, numbers 0 to {len(modules) - 1}"
    remedy = "raise OPENHPU_DEVICE_COUNT"
    if is_set("HABANA_VISIBLE_MODULES"):
        there = f"HABANA_VISIBLE_MODULES={','.join(map(str, modules))} lists {len(modules)}"
        remedy = "list more modules"
    return SettingError(f"LOCAL_RANK={rank} has no module: {there}. Start fewer processes or {remedy}.")


def _memory_bytes() -> int:
    gigabytes: float = get("OPENHPU_MEMORY_GB")
    capacity = int(gigabytes * GIB) if gigabytes else device_memory()
    share: int = get("PT_HPU_POOL_MEM_ACQUIRE_PERC")
    capacity = capacity * share // 100
    pool: int = get("PT_HABANA_POOL_SIZE")
    return capacity if pool == _WHOLE_POOL else min(capacity, pool * GIB)
