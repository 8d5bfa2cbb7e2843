"""What the machine has for a device, as the core sees it (csrc/device/host_memory, csrc/device/usable_cores)."""

from __future__ import annotations


def device_memory(root: str = "") -> int:
    """Bytes that a device may have: what this process can still get, less what is kept for the host's side.

    That is what the machine has available, or what the control groups of this process leave of their limits. `root`
    stands before all paths.
    """
    from openhpu import _C  # settings are read without the core, too (hl-smi)

    return _C.device_memory(root)


def usable_cores() -> int:
    """Cores that this process may use: its affinity, and its control groups' quotas in whole cores; 1 at least."""
    from openhpu import _C

    return _C.usable_cores()
