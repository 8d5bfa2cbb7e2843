"""What files of several processes are told apart by."""

import multiprocessing
import os


def rank() -> int | None:
    """This process's rank, as launchers tell it."""
    text = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or ""
    return int(text) if text.isdigit() else None


def suffix(made_in: int = 0) -> str:
    """For a file's name: "-rankR" in a job of several ranks, "-pidP" in a child process, both, or nothing.

    A process that multiprocessing has started is a child, and one that is not the process `made_in` (0: any).
    """
    child = (made_in and os.getpid() != made_in) or multiprocessing.parent_process() is not None
    return ("" if rank() is None else f"-rank{rank()}") + (f"-pid{os.getpid()}" if child else "")
