"""Compiles in the background: takes graphs, answers with recipes from the disk or from the compile process."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import selectors
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from openhpu.compiler import disk_cache, server
from openhpu.compiler.disk_cache import DiskCache
from openhpu.compiler.identity import recipe_key
from openhpu.compiler.manifest import Manifest

_STOP_S = 10.0  # how long `close` waits for a callback that is running


class _Request(NamedTuple):
    identity: int
    description: Any
    on_ready: Callable[[int, Manifest, Path], object]
    on_failed: Callable[[int, str], object]


class Service:
    """Recipes for graphs, in the order in which they become available.

    A request is looked up in `cache`, then compiled by a process of priority `nice`, which is started when first
    needed and started again if it dies. Callbacks run on the service's thread, one at a time: `on_ready(identity,
    manifest, folder)` or `on_failed(identity, message)`, exactly one of them, unless the service is closed before.
    `work` is a folder for what the compiler writes, by default a temporary one that goes with the service; recipes that
    no cache takes stay there, too. Belongs to the process that made it: a forked child needs one of its own.
    """

    def __init__(self, cache: DiskCache | None = None, work: Path | None = None, nice: int = 19) -> None:
        self._owner = os.getpid()
        self._nice = nice
        self._cache = cache
        self._given_work = work
        self._work: Path | None = None
        self._caches: list[DiskCache] = []
        self._new: deque[_Request] = deque()  # not looked up yet
        self._waiting: deque[tuple[_Request, bytes]] = deque()  # for the compile process, as messages
        self._current: _Request | None = None  # what the process is compiling
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._open = 0
        self._found: set[int] = set()  # requests answered from the disk, until their callback has run
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._wake_up, self._woken = socket.socketpair()
        self._wake_up.setblocking(False)
        self._woken.setblocking(False)
        self._said: set[str] = set()
        if cache is not None:
            cache.warn = self._warn  # what both processes find is said once
        _services.add(self)
        atexit.register(self.close)

    def request(
        self,
        identity: int,
        description: Any,
        on_ready: Callable[[int, Manifest, Path], object],
        on_failed: Callable[[int, str], object],
    ) -> None:
        """Ask for the recipe of a graph (`openhpu.compiler.description`). Returns at once."""
        self._check_process()
        with self._changed:
            if self._closed:
                raise RuntimeError("the compile service is closed")
            self._new.append(_Request(identity, description, on_ready, on_failed))
            self._open += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="openhpu-compile", daemon=True)
                self._thread.start()
        self._wake()

    def wait_all(self, timeout: float | None = None) -> bool:
        """Wait until every request was answered and its callback has returned. False if `timeout` seconds passed
        first, or the service was closed."""
        self._check_process()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._open, timeout)
            return not self._open

    def found_on_disk(self, identity: int) -> bool:
        """For `on_ready`: whether the recipe was on disk, and nothing was compiled."""
        return identity in self._found

    def close(self) -> None:
        """End the compile process and drop what is open, without callbacks. May be called again."""
        atexit.unregister(self.close)
        if os.getpid() != self._owner:
            return
        with self._changed:
            already, self._closed = self._closed, True
            self._changed.notify_all()
        if already:
            return
        self._wake()
        self._kill(self._process)
        thread = self._thread
        if thread is threading.current_thread():  # called by a callback: `_serve` cleans up
            return
        if thread is None:
            self._clean_up()
        else:
            thread.join(_STOP_S)

    def _check_process(self) -> None:
        if os.getpid() != self._owner:
            raise RuntimeError(
                f"this compile service belongs to process {self._owner}; a forked child needs a service of its own"
            )

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it wakes up anyway; closed: nothing to wake
            self._wake_up.send(b"\0")

    @staticmethod
    def _kill(process: subprocess.Popen[bytes] | None) -> None:
        """With its C++ compiler, which is in its group."""
        if process is not None and process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)

    # All below runs on the service's thread.

    def _serve(self) -> None:
        try:
            while not self._closed:
                self._wait()
                while self._new and not self._closed:
                    self._guarded(self._look_up, self._new.popleft())
                while self._waiting and self._current is None and not self._closed:
                    self._guarded(self._start, *self._waiting.popleft())
        finally:
            self._clean_up()

    def _wait(self) -> None:
        """For a request, an answer, the end of the process, or the service's."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            if self._connection is not None:
                selector.register(self._connection, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select()]
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(4096)
        if self._connection in ready and not self._closed:
            self._receive()

    def _guarded(self, step: Callable[..., None], request: _Request, *arguments: Any) -> None:
        """An error of ours is the request's, and the thread goes on."""
        try:
            step(request, *arguments)
        except Exception as error:
            self._failed(request, f"{type(error).__name__}: {error}")

    def _look_up(self, request: _Request) -> None:
        self._prepare_folders()
        key = recipe_key(request.description)
        if found := disk_cache.find(self._caches, request.description, key):
            self._found.add(request.identity)
            self._ready(request, *found)
            self._found.discard(request.identity)
            return
        caches = [(cache.path, cache.max_bytes) for cache in self._caches]
        job = server.Job(request.description, key, caches)
        self._waiting.append((request, pickle.dumps(tuple(job))))

    def _start(self, request: _Request, message: bytes) -> None:
        for attempt in (0, 1):
            if self._connection is None:
                self._start_process()
            assert self._connection is not None
            try:
                server.send(self._connection, message)
                break
            except ConnectionError:  # it died since the last job
                self._end_process()
                if attempt:
                    raise
        self._current = request

    def _receive(self) -> None:
        assert self._connection is not None
        message = server.receive(self._connection)
        request, self._current = self._current, None
        if message is None:
            reason = self._end_process()
            if request is not None:
                self._failed(request, f"the compile process {reason}")
            return
        assert request is not None
        self._guarded(self._answered, request, message)

    def _answered(self, request: _Request, message: bytes) -> None:
        answer = server.Answer(*pickle.loads(message))
        for note in answer.notes:
            self._warn(note)
        if answer.manifest is None or answer.folder is None:
            self._failed(request, answer.error)
        else:
            self._ready(request, answer.manifest, answer.folder)

    def _ready(self, request: _Request, manifest: Manifest, folder: Path) -> None:
        self._call(request.on_ready, request.identity, manifest, folder)

    def _failed(self, request: _Request, message: str) -> None:
        self._call(request.on_failed, request.identity, message)

    def _call(self, callback: Callable[..., object], *arguments: Any) -> None:
        try:
            if not self._closed:
                callback(*arguments)
        except Exception:
            _report()
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify_all()

    def _prepare_folders(self) -> None:
        if self._work is not None:
            return
        if self._given_work is None:
            self._work = Path(tempfile.mkdtemp(prefix="openhpu-compile-"))
        else:
            self._given_work.mkdir(parents=True, exist_ok=True)
            self._work = Path(tempfile.mkdtemp(prefix="compile-", dir=self._given_work))
        private = DiskCache(self._work / "recipes", None, warn=self._warn)
        self._caches = [private] if self._cache is None else [self._cache, private]

    def _warn(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            try:
                warnings.warn(message, RuntimeWarning, stacklevel=2)
            except RuntimeWarning:  # made an error: there is nobody to catch it here
                _report()

    def _start_process(self) -> None:
        assert self._work is not None
        self._work.mkdir(parents=True, exist_ok=True)  # somebody may tidy up temporary folders
        ours, theirs = socket.socketpair()
        self._connection = ours
        with theirs, (self._work / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable or "python3", "-P", "-m", server.__name__,
                 str(theirs.fileno()), str(self._nice), str(self._work)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(theirs.fileno(),), cwd=self._work,
                env=_environment(self._work),
                process_group=0,  # no Ctrl-C of the terminal; no session, in which Linux would not heed `nice`
            )  # fmt: skip

    def _end_process(self) -> str:
        """Kill it, if it is alive. What happened, as the end of a sentence about it."""
        process, self._process = self._process, None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if process is None:
            return "was not running"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)  # its connection ends a moment before it
        self._kill(process)
        code = process.wait()
        if code < 0:
            return f"was killed by signal {-code} ({signal.strsignal(-code)}); the next graph starts another"
        assert self._work is not None
        said = (self._work / "log").read_text(errors="replace").strip().splitlines()
        return f"ended with exit code {code}: {said[-1] if said else 'it said nothing'}"

    def _clean_up(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._kill(process)
            process.wait()
        for end in (self._connection, self._wake_up, self._woken):
            if end is not None:
                end.close()
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)
        with self._changed:
            self._closed = True
            self._new.clear()
            self._waiting.clear()
            self._changed.notify_all()
        _services.discard(self)


def _environment(work: Path) -> dict[str, str]:
    """The compile process's: it finds this package and this torch first, has no hpu device, and compiles alike for
    everybody."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHINDUCTOR_")}
    installed = {os.path.abspath(path) for path in (*site.getsitepackages(), site.getusersitepackages())}
    places = [str(Path(__file__).parents[2]), str(Path(torch.__file__).parents[1])]
    # What is installed is found anyway; in PYTHONPATH it would come before Python's own modules.
    places = [place for place in dict.fromkeys(places) if place not in installed]
    inherited = [os.path.abspath(path) for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment |= {
        "PYTHONPATH": os.pathsep.join([*places, *inherited]),
        "PYTHONWARNINGS": "ignore",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    return environment


def _report() -> None:
    """An exception that nobody on the service's thread can handle, as Python reports those of threads."""
    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


_services: weakref.WeakSet[Service] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child would keep the connection open beyond its parent's end."""
    for service in list(_services):
        for end in (service._connection, service._wake_up, service._woken):
            if end is not None:
                end.close()


os.register_at_fork(after_in_child=_let_go_in_child)
