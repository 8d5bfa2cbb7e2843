"""How much memory the machine has for a device. The core looks again when the device grows (csrc/device/backing)."""

from __future__ import annotations

from pathlib import Path

_MIB = 1 << 20
_LEAST = 64 * _MIB  # on a machine that is full: allocations then say so

# Limit, use, cached files that give way, cached files of which half do.
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file", "active_file")


def device_memory(root: str = "/") -> int:
    """Bytes that a device may have: what this process can still get, less what is kept for the host's side.

    That is what the machine has available, or what the control groups of this process leave of their limits. `root`
    stands before all paths.
    """
    info = _entries(Path(root, "proc/meminfo"))
    total = info.get("MemTotal:", 0) << 10
    available = info.get("MemAvailable:", total >> 10) << 10
    for folder, files in _groups(Path(root)):
        limit = _number(folder / files[0])
        if limit is None or limit >= 1 << 60:  # version 1 writes "none" as a number near 2^63
            continue
        total = min(total, limit)
        cached = _entries(folder / "memory.stat")
        used = (_number(folder / files[1]) or 0) - cached.get(files[2], 0) - cached.get(files[3], 0) // 2
        available = min(available, limit - max(used, 0))
    kept = min(max(total // 16, 128 * _MIB), 2048 * _MIB)
    return max(available - kept, _LEAST)


def _groups(root: Path) -> list[tuple[Path, tuple[str, str, str, str]]]:
    found = []
    mounts: tuple[str, ...]
    for line in _lines(root / "proc/self/cgroup"):  # "4:memory:/a/b", "0::/a/b"
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            mounts, files = ("sys/fs/cgroup", "sys/fs/cgroup/unified"), _VERSION_2
        elif "memory" in controllers.split(","):
            mounts, files = ("sys/fs/cgroup/memory",), _VERSION_1
        else:
            continue
        for mount in mounts:
            folder = root / mount / path.lstrip("/")
            # A container may see its own group as the root, under a path that it cannot see.
            found += [(each, files) for each in (folder, *folder.parents) if each.is_relative_to(root / mount)]
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _entries(path: Path) -> dict[str, int]:
    """The numbers of a file of lines "key number ..."."""
    words = [line.split() for line in _lines(path)]
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None
