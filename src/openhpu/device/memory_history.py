"""A history of the device's memory that PyTorch's visualiser (docs.pytorch.org/memory_viz) opens.

The names are those of torch.cuda.memory; the document is the one that `torch.cuda._memory_viz` describes.
"""

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

from openhpu import _C
from openhpu.device.arguments import DeviceArgument, _get_device_index

_MOST = 1 << 20


class _Block(NamedTuple):
    address: int
    size: int
    line: tuple[str, int]


def _record_memory_history(
    enabled: Literal["state", "all"] | bool | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = _MOST,
    device: DeviceArgument = None,
    clear_history: bool = False,
) -> None:
    """Keep who took which block of device memory, from now on; None or False: no more.

    At most the last `max_entries` events are kept. With each goes the line of the script; `context`, `stacks` and
    `device` are accepted and change nothing: the history is of all devices. `clear_history` begins anew, as every call
    does. Raises ValueError for a negative `max_entries`.
    """
    if max_entries < 0:
        raise ValueError(f"max_entries is a number of events from 0 on, but {max_entries} was given")
    _C.record_memory_history(min(max_entries, 1 << 40) if enabled else 0)


def _snapshot(device: DeviceArgument = None) -> dict[str, Any]:
    """The events since recording began and the blocks that are alive, of one device (default: of all).

    What was taken before recording began is not among them. Sizes are those of blocks, in multiples of 128 bytes.
    """
    only = None if device is None else _get_device_index(device)
    events, blocks = _C.memory_history()
    traces: list[list[dict[str, Any]]] = [[] for _ in range(_C.device_count())]
    for index, freed, address, size, line, time_us in events:
        if only is not None and index != only:
            continue
        event = {"addr": address, "size": size, "stream": 0, "time_us": time_us, "frames": _frames(line)}
        for action in ("free_requested", "free_completed") if freed else ("alloc",):
            traces[index].append({"action": action, **event})
    blocks_of: defaultdict[int, list[_Block]] = defaultdict(list)
    for index, address, size, line in blocks:
        if only in (None, index):
            blocks_of[index].append(_Block(address, size, line))
    segments = [_segment(index, alive) for index, alive in sorted(blocks_of.items())]
    return {"segments": segments, "device_traces": traces, "allocator_settings": {}, "external_annotations": []}


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Write `_snapshot()` to a file, for the visualiser. Raises OSError."""
    Path(filename).write_bytes(pickle.dumps(_snapshot()))


def _frames(line: tuple[str, int]) -> list[dict[str, Any]]:
    file, number = line
    return [{"filename": file, "line": number, "name": Path(file).stem}] if number else []


def _segment(index: int, blocks: list[_Block]) -> dict[str, Any]:
    """The range of memory of a device's blocks, with the gaps between them."""
    blocks = sorted(blocks)
    begin = blocks[0][0]
    found: list[dict[str, Any]] = []
    reached = begin
    for address, size, line in blocks:
        if address > reached:
            gap = address - reached
            found.append({"address": reached, "size": gap, "requested_size": 0, "state": "inactive", "frames": []})
        found.append(
            {
                "address": address,
                "size": size,
                "requested_size": size,
                "state": "active_allocated",
                "frames": _frames(line),
            }
        )
        reached = address + size
    allocated = sum(size for _, size, _ in blocks)
    return {
        "device": index,
        "address": begin,
        "total_size": reached - begin,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": allocated,
        "is_expandable": False,
        "frames": [],
        "blocks": found,
    }
