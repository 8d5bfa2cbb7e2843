"""Columns for hpu in PyTorch's tables of profiled operators. `integration/patches.py` says where and why."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from torch.autograd import DeviceType


class DeviceTypes:
    """`DeviceType` for modules whose lists of accelerators name XPU, which no process with hpu has, and not HPU."""

    XPU = DeviceType.HPU

    def __getattr__(self, name: str) -> DeviceType:
        return getattr(DeviceType, name)  # type: ignore[no-any-return]


def note_parts(events: Iterable[Any]) -> None:
    """Tell each event on a device how much of its time the events directly within it take, so that sums count nothing
    twice: a recipe's operators are events, too."""
    tracks: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for event in events:
        if event.device_type == DeviceType.HPU:
            tracks[event.device_index, event.device_resource_id].append(event)
    for track in tracks.values():
        track.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
        around: list[Any] = []
        for event in track:
            while around and around[-1].time_range.end <= event.time_range.start:
                around.pop()
            event.hpu_parts_us = 0.0
            if around and event.time_range.end <= around[-1].time_range.end:
                around[-1].hpu_parts_us += event.time_range.elapsed_us()
                around.append(event)
            else:
                around = [event]
