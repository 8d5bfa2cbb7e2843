"""Tests that run in several processes at once: `@ranks(2)` before a test runs its body in each of them.

The processes are started once for each number of ranks, as torchrun would start them, and serve all tests of a run: a
test gets a fresh process group. One in which a rank raised, died or did not come back ends them; the next test has new
ones.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import itertools
import os
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from commands import child
from commands.fork_server import ForkServer
from tests.processes import can_be_forked

ROOT = Path(__file__).resolve().parents[2]
# For a test that hangs; one that passes never waits for it.
PATIENCE_S = float(os.environ.get("RANKS_PATIENCE_S", "100"))
_LIFE_S = 6 * 3600  # of the processes, which serve the tests of a run
_FAREWELL_S = 20.0  # for what a rank leaves behind, which tests may be about
GROUP = "cpu:gloo,hpu:hccl"

_MOST = int(os.environ.get("RANKS_MOST", "8"))  # processes at a time
_pools: dict[tuple[int, tuple[tuple[str, str], ...]], Pool] = {}  # the one that was used last is the last


_SERVE = "import sys; from tests.distributed.ranks import serve; serve(sys.argv[1])"


_OWN = {"OMP_NUM_THREADS": "1"}


@functools.cache
def _server() -> ForkServer:
    """What ranks are forked from."""
    return ForkServer("torch", "torch._dynamo", **_OWN)


def _start(command: list[str], variables: dict[str, str], **more: Any) -> child.Child:
    server = _server() if can_be_forked(variables, os.environ | _OWN) else None
    return child.start([sys.executable, *command], cwd=ROOT, env=variables, server=server, **more)


def _end(processes: list[child.Child]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.__exit__()


_FIRST_PORT = 20_000
_PORTS = 12_000
_next_port = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """A port that nobody has. The system gives it to no other program meanwhile: its own choices begin at 32,768. Test
    processes that run side by side begin at other ones."""
    for number in _next_port:
        port = _FIRST_PORT + number % _PORTS
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("", port))
            return port
    raise AssertionError  # it counts for ever


def environment(rank: int, size: int, port: int) -> dict[str, str]:
    """What torchrun tells a process."""
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    }


class Pool:
    """The processes of one number of ranks, with these environment variables beside those of the tests."""

    def __init__(self, size: int, variables: tuple[tuple[str, str], ...] = ()) -> None:
        self.size = size
        self.variables = variables
        port = free_port()
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.connections: list[Connection] = []
        self.processes: list[child.Child] = []
        address = str(Path(self.folder.name) / "socket")
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(address)
                listener.listen(size)
                listener.settimeout(0.2)
                for rank in range(size):
                    variables_of_rank = environment(rank, size, port) | dict(variables)
                    self.processes.append(_start(["-c", _SERVE, address], variables_of_rank, seconds=_LIFE_S))
                self.connections = self._connect(listener)
        except BaseException:
            self.end()
            raise

    def _connect(self, listener: socket.socket) -> list[Connection]:
        """A connection to each rank. AssertionError, with what it printed, if one ends before it is there."""
        by_rank: dict[int, Connection] = {}
        end = time.monotonic() + PATIENCE_S
        while len(by_rank) < self.size:
            for rank, process in enumerate(self.processes):
                if rank not in by_rank and ((ended := process.poll()) or time.monotonic() > end):
                    how = f"ended before it was ready: {ended.how}" if ended else f"not ready after {PATIENCE_S:.0f} s"
                    raise AssertionError(f"--- rank {rank} {how}{self._printed(rank)}")
            with contextlib.suppress(TimeoutError, EOFError):
                connection = Connection(listener.accept()[0].detach())
                if connection.poll(PATIENCE_S):
                    by_rank[connection.recv()] = connection
        return [by_rank[rank] for rank in range(self.size)]

    def run(self, module: str, name: str, arguments: tuple[Any, ...], backend: str | None) -> list[Any]:
        """What a function returns in each rank. AssertionError, with tracebacks, when one raised or did not answer."""
        returned = []
        store = tempfile.mktemp(dir=self.folder.name)
        failures = []
        for rank, connection in enumerate(self.connections):
            try:
                connection.send((module, name, arguments, backend, store))
            except OSError:
                failures.append(f"--- rank {rank}: died after the test before{self._printed(rank)}")
        end = time.monotonic() + PATIENCE_S
        for rank, connection in enumerate(self.connections):
            try:
                if connection.poll(1.0 if failures else max(0.0, end - time.monotonic())):
                    answer, value = connection.recv()
                    returned.append(value)
                else:
                    answer = "did not come back"
            except EOFError:
                ended = self.processes[rank].poll(10)
                answer = f"died: {ended.how if ended else 'it closed its connection'}"
            if answer:
                failures.append(f"--- rank {rank}: {answer}{self._printed(rank)}")
        if failures:
            self.end()
            raise AssertionError("\n".join(failures))
        return returned

    def _printed(self, rank: int) -> str:
        return "\n--- printed:\n" + self.processes[rank].printed()[-4000:]

    def end(self) -> None:
        _pools.pop((self.size, self.variables), None)
        for connection in self.connections:
            connection.close()
        _end(self.processes)
        self.folder.cleanup()


@atexit.register
def _end_all() -> None:
    for pool in list(_pools.values()):
        pool.end()


_BEGIN = """
import os, signal, sys, time
from datetime import timedelta
import torch
import torch.distributed as dist

import habana_frameworks.torch.distributed.hccl
rank = int(os.environ["RANK"])
dist.init_process_group("hccl", timeout=timedelta(seconds=20))
x = torch.ones(4, device="hpu")
dist.all_reduce(x)
torch.hpu.synchronize()
print("ready", flush=True)
"""


class Job:
    """Processes that run the same script, each with what torchrun would tell it."""

    def __init__(self, code: str, size: int = 2, *, first: str = "", **variables: str) -> None:
        port = free_port()
        self.processes: list[child.Child] = []
        try:
            for rank in range(size):
                command = ["-c", first + _BEGIN + code]
                own = environment(rank, size, port) | variables
                self.processes.append(_start(command, own, seconds=PATIENCE_S, farewell=_FAREWELL_S))
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *error: object) -> None:
        _end(self.processes)

    def until_ready(self) -> None:
        for process in self.processes:
            while "ready" not in process.printed().splitlines():
                assert process.poll(0.05) is None, f"ended before it was ready:\n{process.printed()}"

    def ends(self) -> tuple[list[int], list[str]]:
        """Exit codes and what was printed. AssertionError if one does not end."""
        ended = [process.wait(PATIENCE_S) for process in self.processes]
        for rank, each in enumerate(ended):
            assert not each.timed_out, f"rank {rank}: {each.how}; processes: {each.killed}\n{each.output}"
        return [each.code for each in ended], [each.output for each in ended]


def run_job(code: str, codes: Sequence[int] = (0, 0), **options: Any) -> list[str]:
    """What the ranks of a Job printed. AssertionError if they did not end with these codes."""
    with Job(code, **options) as job:
        ended, printed = job.ends()
    assert ended == list(codes), printed
    return printed


def ranks(
    size: int, backend: str | None = GROUP, around: Callable[[], Any] = contextlib.nullcontext
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run the test's body in `size` processes with a process group of this backend (None: without a group), in the
    context that `around` makes."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def body(*args: Any, **kwargs: Any) -> None:
            with around():
                test(*args, **kwargs)

        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            _pool(size, ()).run(_module(test), test.__qualname__, (args, kwargs), backend)

        run.body = body  # type: ignore[attr-defined]
        return run

    return decorate


def call(
    function: Callable[..., Any], *args: Any, size: int, backend: str | None, variables: dict[str, str], **kwargs: Any
) -> list[Any]:
    """What a function returns in each of `size` processes that have these environment variables."""
    pool = _pool(size, tuple(sorted(variables.items())))
    return pool.run(_module(function), function.__qualname__, (args, kwargs), backend)


def _module(function: Callable[..., Any]) -> str:
    """Not by pytest's name of the module, which depends on where it began to look."""
    return ".".join(Path(function.__code__.co_filename).relative_to(ROOT).with_suffix("").parts)


def _pool(size: int, variables: tuple[tuple[str, str], ...]) -> Pool:
    pool = _pools.pop((size, variables), None)
    if pool is None:
        # Those that wait do nothing, but they need memory.
        for other in list(_pools.values()):
            if size + sum(kept.size for kept in _pools.values()) > _MOST:
                other.end()
        pool = Pool(size, variables)
    _pools[size, variables] = pool
    return pool


def serve(address: str) -> None:
    """A rank: runs the functions that the test process names, until that hangs up."""
    import torch
    import torch.distributed as dist

    connection = Client(address, "AF_UNIX")
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    connection.send(rank)
    launched = dict(os.environ)
    while True:
        os.environ.update(launched)  # a test's trainer may have removed what it takes for its own
        try:
            module, name, (args, kwargs), backend, store = connection.recv()
        except (EOFError, OSError):
            return
        answer = value = None
        gc.collect()
        gc.freeze()  # DeepSpeed and Lightning collect garbage often, and need not look at all modules each time
        try:
            if backend is not None:
                place: dict[str, Any] = {"store": dist.FileStore(store, size), "rank": rank, "world_size": size}
                dist.init_process_group(backend, timeout=timedelta(seconds=60), **place)
            torch.manual_seed(0)
            function = getattr(importlib.import_module(module), name)
            value = getattr(function, "body", function)(*args, **kwargs)
            if hasattr(torch, "hpu"):
                torch.hpu.synchronize()
            if dist.is_initialized():
                dist.barrier()
                dist.destroy_process_group()
        except BaseException:
            answer = traceback.format_exc()
        connection.send((answer, value))
        if answer:
            return
