"""Which devices a process has, worked out from the environment."""

from __future__ import annotations

from dataclasses import dataclass

from openhpu.settings.access import get, is_set
from openhpu.settings.kinds import SettingError
from openhpu.settings.machine import device_memory

GIB = 1 << 30
_WHOLE_POOL = 24  # PT_HABANA_POOL_SIZE's default, which means "as much as there is"


@dataclass(frozen=True)
class DeviceSetup:
    """What the core is configured with.

    `modules`: module number of each device that the process opens. `visible`: number of indices that
    device_count() reports; when it exceeds len(modules), every index means modules[0]. `memory_bytes`: capacity
    of each device. `spin_us`: how long a worker or a waiting host polls before it sleeps. `processes`: how many of a
    launcher's share this machine's cores.
    """

    modules: tuple[int, ...]
    visible: int
    memory_bytes: int
    protect_memory: bool
    lock_modules: bool
    spin_us: int
    processes: int


def device_setup() -> DeviceSetup:
    """The devices of this process, from the environment as it is now. Raises SettingError."""
    modules, visible = _modules()
    return DeviceSetup(
        modules=modules,
        visible=visible,
        memory_bytes=_memory_bytes(),
        protect_memory=get("OPENHPU_PROTECT_MEMORY"),
        lock_modules=get("OPENHPU_MODULE_LOCKS"),
        spin_us=get("OPENHPU_SPIN_US"),
        processes=max(1, get("LOCAL_WORLD_SIZE")),
    )


def _modules() -> tuple[tuple[int, ...], int]:
    listed: tuple[int, ...] | None = get("HABANA_VISIBLE_MODULES")
    count: int = get("OPENHPU_DEVICE_COUNT")
    rank: int = get("LOCAL_RANK")
    if rank < 0 and not is_set("HLS_MODULE_ID"):
        modules = listed or tuple(range(count))
        return modules, len(modules)
    # A launcher's process owns one module and means it by every index.
    own: int | None = get("HLS_MODULE_ID")
    if listed is None:
        module = rank if own is None else own
        visible = max(count, get("LOCAL_WORLD_SIZE"), rank + 1)
        return (module,), visible
    if own is None:
        if rank >= len(listed):
            text = ",".join(map(str, listed))
            raise SettingError(
                f"LOCAL_RANK={rank} has no module: HABANA_VISIBLE_MODULES={text} lists {len(listed)}. "
                "Start fewer processes or list more modules."
            )
        own = listed[rank]
    return (own,), len(listed)


def _memory_bytes() -> int:
    gigabytes: float = get("OPENHPU_MEMORY_GB")
    capacity = int(gigabytes * GIB) if gigabytes else device_memory()
    share: int = get("PT_HPU_POOL_MEM_ACQUIRE_PERC")
    capacity = capacity * share // 100
    pool: int = get("PT_HABANA_POOL_SIZE")
    return capacity if pool == _WHOLE_POOL else min(capacity, pool * GIB)
