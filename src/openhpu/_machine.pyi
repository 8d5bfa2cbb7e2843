"""What the machine has (csrc/python/machine.cpp): the part of the core that does without PyTorch."""

def device_memory(root: str = "") -> int:
    """Bytes that a device may have: the memory that this process can still get, less a part for the host.

    That is what the machine has available, or what the control groups of this process leave of their limits. `root`
    stands before all paths.
    """

def usable_cores(processes: int = 1, root: str = "") -> int:
    """Cores that this process may use: its affinity, and its control groups' quotas, rounded; 1 at least.

    Where OMP_PROC_BIND bound the main thread to one of OpenMP's places, the cores of all places count. Shared among the
    `processes` that a launcher started on this machine. `root` stands before all paths.
    """

def leave_openmp_binding() -> bool:
    """Let the calling thread, and the processes that it starts, use all cores although OMP_PROC_BIND bound the main
    thread. Does nothing where OpenMP binds no threads."""

recipe_calls: str
adam_step_schema: str
