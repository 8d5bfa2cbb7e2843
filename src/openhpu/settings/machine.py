"""Memory and cores for a device, as the core sees them (csrc/device/host_memory, csrc/device/usable_cores)."""

from openhpu import _machine  # not the core: settings are read without PyTorch, too (hl-smi)


def device_memory(root: str = "") -> int:
    """Bytes that a device may have: the memory that this process can still get, less a part for the host.

    That is what the machine has available, or what the control groups of this process leave of their limits. `root`
    stands before all paths.
    """
    return _machine.device_memory(root)


def usable_cores(processes: int = 1, root: str = "") -> int:
    """Cores that this process may use: its affinity, and its control groups' quotas, rounded; 1 at least.

    Where OMP_PROC_BIND bound the main thread to one of OpenMP's places, the cores of all places count.
    Shared among the `processes` that a launcher started on this machine. `root` stands before all paths.
    """
    return _machine.usable_cores(processes, root)


def leave_openmp_binding() -> None:
    """Let the calling thread, and the processes that it starts, use all cores although OMP_PROC_BIND bound the main
    thread. Does nothing where OpenMP binds no threads."""
    _machine.leave_openmp_binding()
