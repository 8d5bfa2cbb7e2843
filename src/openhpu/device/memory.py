"""Device memory: statistics in bytes and counts, and giving unused memory back."""

import warnings

import torch

from openhpu import _C, settings
from openhpu._machine import device_memory
from openhpu.device import lifecycle
from openhpu.device.arguments import DeviceArgument, _get_device_index, asked_index
from openhpu.device.memory_history import _dump_snapshot, _record_memory_history, _snapshot  # noqa: F401
from openhpu.observe.smi import publisher

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "memory_usage",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
]

_TITLES = {
    "Limit": "capacity",
    "InUse": "in use",
    "MaxInUse": "peak in use",
    "MaxAllocSize": "largest allocation",
    "NumAllocs": "allocations",
    "NumFrees": "frees",
    "ActiveAllocs": "live allocations",
    "TotalSystemAllocs": "reservations made",
    "TotalSystemFrees": "reservations freed",
    "TotalActiveAllocs": "reservations held",
}
_SIZES = frozenset({"Limit", "InUse", "MaxInUse", "MaxAllocSize"})


def memory_stats(device: DeviceArgument = None) -> dict[str, int]:
    """The ten statistics of Gaudi's memory manager: Limit, InUse, MaxInUse and MaxAllocSize in bytes, NumAllocs,
    NumFrees, ActiveAllocs, TotalSystemAllocs, TotalSystemFrees and TotalActiveAllocs as counts."""
    return _C.memory_stats(asked_index(device))


def _stat(key: str, device: DeviceArgument) -> int:
    """One statistic, or 0 while no device is open."""
    index = _get_device_index(device, optional=True)
    return _C.memory_stats(index)[key] if lifecycle.is_initialized() else 0


def _get_hlml_shared_object_name(device: DeviceArgument = None) -> str:
    """The name of the shared object in /dev/shm that says how much of the device's memory this process uses.

    Three unsigned 64-bit numbers: version (1), seconds since 1970, bytes in use; renewed twice a second. Empty where
    OPENHPU_SMI_FOLDER=off, or where the folder can't be written. The object exists from the first memory or work on.
    """
    return publisher.hlml_name(asked_index(device))


def memory_allocated(device: DeviceArgument = None) -> int:
    """Bytes of all live blocks."""
    return _stat("InUse", device)


def max_memory_allocated(device: DeviceArgument = None) -> int:
    """The most bytes that were in use at once since the start or the last reset."""
    return _stat("MaxInUse", device)


def memory_reserved(device: DeviceArgument = None) -> int:
    """Bytes that the pool reserved: the capacity of the device."""
    return memory_stats(device)["Limit"]


max_memory_reserved = memory_reserved  # the pool never grows


def memory_cached(device: DeviceArgument = None) -> int:
    """Deprecated: use `memory_reserved`."""
    warnings.warn("hpu.memory_cached has been renamed to hpu.memory_reserved", FutureWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device: DeviceArgument = None) -> int:
    """Deprecated: use `max_memory_reserved`."""
    warnings.warn("hpu.max_memory_cached has been renamed to hpu.max_memory_reserved", FutureWarning, stacklevel=2)
    return max_memory_reserved(device)


def mem_get_info(device: DeviceArgument = None) -> tuple[int, int]:
    """Free and total bytes.

    Where OPENHPU_MEMORY_GB is unset, all ranks of a job share the machine's memory: then free is at most a rank's share
    of what the machine has now.
    """
    stats = memory_stats(device)
    free = stats["Limit"] - stats["InUse"]
    ranks = _ranks_of_this_machine()
    if ranks > 1 and not settings.get("OPENHPU_MEMORY_GB"):
        free = min(free, device_memory() // ranks)
    return free, stats["Limit"]


def _ranks_of_this_machine() -> int:
    """Number of this job's processes on this machine: the launcher's, or else that of the default group."""
    if settings.is_set("LOCAL_WORLD_SIZE") or not torch.distributed.is_initialized():
        return int(settings.get("LOCAL_WORLD_SIZE"))
    return torch.distributed.get_world_size()


def reset_peak_memory_stats(device: DeviceArgument = None) -> None:
    """Start a new measurement of MaxInUse and MaxAllocSize."""
    index = _get_device_index(device, optional=True)
    if lifecycle.is_initialized():
        _C.reset_peak_memory_stats(index)


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: DeviceArgument = None) -> None:
    """Set NumAllocs, NumFrees, TotalSystemAllocs and TotalSystemFrees to zero."""
    index = _get_device_index(device, optional=True)
    if lifecycle.is_initialized():
        _C.reset_accumulated_memory_stats(index)


def empty_cache() -> None:
    """Give the memory of free blocks of the current device back to the operating system."""
    if lifecycle.is_initialized():
        _C.empty_cache(_C.current_device())


def memory_usage(device: DeviceArgument = None) -> int:
    """The share of the device's memory that is in use, in percent."""
    free, total = mem_get_info(device)
    return round(100 * (total - free) / total)


def memory_summary(device: DeviceArgument = None, abbreviated: bool = False) -> str:
    """A table of `memory_stats` as text; `abbreviated` leaves the reservations out."""
    from openhpu.observe.insight import sentences

    index = _get_device_index(device, optional=True)
    stats = memory_stats(index)
    rows = [("metric", "value")]
    for key, title in _TITLES.items():
        if not (abbreviated and key.startswith("Total")):
            rows.append((f"{title} ({key})", sentences.size(stats[key], 2) if key in _SIZES else str(stats[key])))
    left, right = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"| {name:<{left}} | {value:>{right}} |" for name, value in rows]
    rule = "=" * len(lines[0])
    title = f"| {f'HPU {index} memory':<{len(lines[0]) - 4}} |"
    return "\n".join([rule, title, rule, lines[0], rule, *lines[1:], rule])
