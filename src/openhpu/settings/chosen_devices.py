"""Which devices a process has, worked out from the environment."""

from dataclasses import dataclass

from openhpu._machine import device_memory, usable_cores  # not the core: settings are read without PyTorch, too
from openhpu.settings.access import get, is_set
from openhpu.settings.kinds import MAX_MODULES, SettingError

GIB = 1 << 30
_WHOLE_POOL = 24  # PT_HABANA_POOL_SIZE's default, which means "as much as there is"


@dataclass(frozen=True)
class DeviceSetup:
    """The configuration of the core, as its function `configure` takes it, and `count`.

    `modules`: module number of each device that the process opens; `floating`: these are the machine's modules, and
    each device gets a free one of them when it is opened. `visible`: number of indices that scripts may use; when
    `modules` is one module, every index means that. `count`: what device_count() reports, by which libraries choose
    how many devices to use. `module_wait_s`: how long to wait for a module that is in use. `memory_bytes`: capacity of
    each device. `spin_us`: how long a worker or a waiting host polls before it sleeps. `processes`: how many of a
    launcher's share this machine's cores.
    """

    modules: tuple[int, ...]
    floating: bool
    visible: int
    count: int
    module_wait_s: float
    memory_bytes: int
    protect_memory: bool
    lock_modules: bool
    spin_us: int
    processes: int


def device_setup() -> DeviceSetup:
    """The devices of this process, from the environment as it is now. Raises SettingError."""
    modules, floating, visible, count = _modules()
    return DeviceSetup(
        modules=modules,
        floating=floating,
        visible=min(visible, MAX_MODULES),
        count=min(count, MAX_MODULES),
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
        if rank >= len(modules):
            raise no_module(rank, modules)
        own = modules[rank]
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
