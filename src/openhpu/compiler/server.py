"""The compile process: `python -m openhpu.compiler.server SOCKET WORK IDLE`, started by the service.

It keeps Inductor out of the script's process, with its imports, its memory, its crashes and its processor time.
Messages go over the inherited socket, as `multiprocessing.connection` sends them. When the imports are done, the
process sends an empty message. A job is a byte, which says whether the job may wait for idle cores, and a pickle; IDLE,
0 or 1, says the same of the imports. An answer is a pickle. The process does one job at a time. It ends with its
parent, also in the middle of a job, and ends the C++ compiler too.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import pickle
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from openhpu.compiler.client.disk_cache import DiskCache
    from openhpu.compiler.client.manifest import Manifest
    from openhpu.compiler.program.description import Description

T = TypeVar("T")

PHASE = "phase"  # in WORK: the file with the name of the phase that the process is in
_PR_SET_PDEATHSIG = 1
_half_imported = ""  # on a full disk: why; a second attempt fails in another way


# Messages are plain tuples: a class of this process cannot be imported under the same name in the other one.
class Job(NamedTuple):
    """To the server: compile a graph. `caches` are paths and size limits, the first is asked and filled first."""

    description: Description
    key: str
    caches: list[tuple[Path, int | None]]


class Answer(NamedTuple):
    """From the server: a recipe and its folder, or an error. `notes` are warnings for the user, `seconds` those of each
    phase (`openhpu.compiler.compile_phases`)."""

    manifest: Manifest | None
    folder: Path | None
    error: str
    notes: list[str]
    seconds: Mapping[str, float] = MappingProxyType({})


def main(arguments: Sequence[str]) -> None:
    connection = Connection(int(arguments[0]))
    os.set_inheritable(connection.fileno(), False)  # the C++ compiler shall not keep it open
    work = Path(arguments[1])
    _die_with_parent()
    _die_first()
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, jobs, work), daemon=True).start()

    take_imports = functools.partial(_import, work)
    if arguments[2] == "1":
        _idly(take_imports)
    else:
        take_imports()
    with contextlib.suppress(ConnectionError):
        connection.send_bytes(b"")
    behind: threading.Thread | None = None
    while True:
        message = jobs.get()
        job = Job(*pickle.loads(message[1:]))
        take_job = functools.partial(_answer, job, work)
        answer = _idly(take_job) if message[0] else take_job()
        with contextlib.suppress(ConnectionError):
            connection.send_bytes(pickle.dumps(tuple(answer)))
        if jobs.empty() and not (behind and behind.is_alive()):
            behind = threading.Thread(target=_precompile, args=(jobs,), daemon=True)
            behind.start()


def _import(work: Path) -> None:
    """What compilations need: takes seconds, while the first job is on its way."""
    from openhpu.compiler.compile_phases import START, phases

    phases.told = functools.partial(_tell, work / PHASE)
    with phases.phase(START):
        _import_all(work)


def _tell(path: Path, phase: str) -> None:
    with contextlib.suppress(OSError):
        path.write_text(phase)


def _import_all(work: Path) -> None:
    gc.disable()  # modules stay: looking at them again and again takes a tenth of the time
    import openhpu.compiler.recipe  # noqa: F401
    from openhpu.compiler.inductor import inductor

    global _half_imported
    try:
        inductor.ahead(work / "compiled" / "ahead")
    except OSError as error:
        _half_imported = f"{type(error).__name__}: {error}"
    except Exception:
        pass
    gc.freeze()
    gc.enable()


def _precompile(jobs: queue.SimpleQueue[bytes]) -> None:
    """Precompile headers, as long as nothing is asked."""
    from openhpu.compiler.inductor import toolchain

    _be_idle()
    while jobs.empty() and toolchain.precompile_behind():
        pass


def _be_idle() -> None:
    """From now on this thread, and the processes that it starts, take only time that nobody else wants."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _die_first() -> None:
    """Where the machine runs out of memory, the system ends this process (and its compiler), not the training."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _listen(connection: Connection, jobs: queue.SimpleQueue[bytes], work: Path) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            jobs.put(connection.recv_bytes())
    shutil.rmtree(work, ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _die_with_parent() -> None:
    """The end of the connection tells, unless another child of the parent holds its other end."""
    parent = os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _answer(job: Job, work: Path) -> Answer:
    from openhpu.compiler.client.disk_cache import DiskCache
    from openhpu.compiler.compile_phases import phases

    notes: list[str] = []
    caches = [DiskCache(path, max_bytes, warn=notes.append) for path, max_bytes in job.caches]
    try:
        manifest, folder = _recipe(job.description, job.key, caches, work / "compiled")
        return Answer(manifest, folder, "", notes, phases.taken())
    except Exception as error:  # of a graph, the disk, or a defect: the process goes on
        name = "" if type(error).__name__ == "CannotCompile" else f"{type(error).__name__}: "
        return Answer(None, None, _half_imported or f"{name}{error}", notes, phases.taken())


def _idly(function: Callable[[], T]) -> T:
    """Call it on a thread that is idle. A thread can't take its policy back, so each call has one of its own."""
    with ThreadPoolExecutor(1, initializer=_be_idle) as thread:
        return thread.submit(function).result()


def _recipe(
    description: Description, key: str, caches: list[DiskCache], folder: Path, *, whole: bool = False
) -> tuple[Manifest, Path]:
    """The recipe of a graph, and its folder. `whole`: the graph is not divided into regions."""
    from openhpu.compiler.client.disk_cache import find

    with caches[0].lock(key):
        if found := find(caches, description, key):  # another process was faster
            return found
        known = {index for cache in caches for index in cache.constants(key)}
        manifest = None if whole or known else _of_regions(description, key, caches, folder)
        constants: set[int] = set()
        if manifest is None:
            manifest, constants = _compiled(description, key, known, folder)
        for cache in caches:
            if constants:
                cache.remember_constants(key, sorted(constants))
            if adopted := cache.adopt(folder / manifest.key, manifest.key):
                shutil.rmtree(folder / manifest.key, ignore_errors=True)
                return manifest, adopted
        return manifest, folder / manifest.key


def _of_regions(description: Description, key: str, caches: list[DiskCache], folder: Path) -> Manifest | None:
    """The recipe of a graph of which parts repeat; None if it is to be compiled as a whole."""
    from openhpu import settings
    from openhpu.compiler.client.identity import recipe_key
    from openhpu.compiler.errors import CannotCompile
    from openhpu.compiler.program.regions import divide
    from openhpu.compiler.recipe import join_regions

    division = divide(description) if settings.get("OPENHPU_REGIONS") else None
    if division is None:
        return None
    found = []
    try:
        for region in division.regions:
            manifest, place = _recipe(region, recipe_key(region), caches, folder, whole=True)
            if len(manifest.variable) != sum(region["variable"]):
                return None  # a number that had to be constant may differ from one repetition to the next
            found.append((manifest, place))
        return join_regions(description, folder, key, found, division.calls)
    except CannotCompile:  # the whole may be compiled nevertheless, or says why not
        return None


def _compiled(description: Description, key: str, constants: set[int], folder: Path) -> tuple[Manifest, set[int]]:
    """Compile with as many numbers variable as possible. Also returns the numbers that had to be constants: first the
    known ones are constants, then also the ones that the compiler names, then all."""
    from openhpu.compiler.errors import CannotCompile
    from openhpu.compiler.program.description import with_constants
    from openhpu.compiler.recipe import compile_recipe

    every = {index for index, variable in enumerate(description["variable"]) if variable}
    constants &= every
    for retry in range(3):
        try:
            current = with_constants(description, constants)
            return compile_recipe(current, folder, key=None if constants else key), constants
        except CannotCompile as error:
            if not set(error.scalars) - constants:
                raise
            constants = every if retry else constants | set(error.scalars)
    raise AssertionError("a graph without variable numbers names some")


if __name__ == "__main__":
    main(sys.argv[1:])
