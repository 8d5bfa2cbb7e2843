"""The service of the compiler: takes graphs, and returns recipes from the disk or from the compile process."""

import atexit
import contextlib
import os
import pickle
import shutil
import signal
import site
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from openhpu._machine import leave_openmp_binding
from openhpu.compiler import server
from openhpu.compiler.client import disk_cache
from openhpu.compiler.client.disk_cache import DiskCache
from openhpu.compiler.client.forks import no_fork
from openhpu.compiler.client.identity import recipe_key
from openhpu.compiler.client.manifest import Manifest, misfit
from openhpu.compiler.program import sections
from openhpu.observe.aside import report

_STOP_S = 10.0  # how long `close` waits for a callback that is running
_DIE_S = 5.0  # and for a killed process, which the system may hold
_LONGEST_ANSWER = 2**28
_LONGEST_PHASE = 100


class _Request(NamedTuple):
    identity: int
    description: Any
    on_ready: Callable[[int, Manifest, Path], object]
    on_failed: Callable[[int, str], object]


class _Failure(Exception):
    """Why a request fails, and the compile process is not there any more."""


class _Nonsense(Exception):
    """The compile process sent an invalid answer."""


class Service:
    """Recipes for graphs, in the order in which they become available.

    A request is looked up in `cache`, then compiled by a process, started when first needed, or by `ahead`, and
    started again if it dies. With `idle` graphs get only time that nobody else wants, but where `hurry` says that
    somebody waits or will wait. Of a request `on_ready(identity, manifest, folder)` or `on_failed(identity, message)`
    is called, exactly one of them, unless the service is closed before: on the thread that asks for a recipe that is on
    disk, else on the service's, which does one thing after another.
    A process that takes longer than `deadline` seconds for one graph (None: no limit) is killed. `urgent` names the
    requests that somebody waits for: they are compiled first. `warn` gets, on one of these threads, what a person
    should know; by default it becomes a RuntimeWarning there.
    What the compiler writes is in a temporary folder that goes with the service; recipes that no cache takes stay
    there, too. Belongs to the process that made it: a forked child needs one of its own.
    """

    def __init__(
        self,
        cache: DiskCache | None = None,
        idle: bool = False,
        deadline: float | None = None,
        urgent: Callable[[], Collection[int]] = tuple,
        hurry: Callable[[], bool] = bool,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._owner = os.getpid()
        self._deadline = deadline
        self._urgent = urgent
        self._hurry = hurry
        self._idle = idle
        self._tell = warn or _warn
        self._cache = cache
        self._work: Path | None = None
        self._caches: list[DiskCache] = []
        self._waiting: deque[tuple[_Request, bytes]] = deque()  # for the compile process, as messages
        self._current: _Request | None = None  # the request that the process compiles
        self._greeted = False  # the process has said that it takes requests
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._ahead = False  # the process is to be started although nothing is asked yet
        # Of each phase of the last compilation (compile_phases), for the callback that gets its recipe.
        self.seconds: Mapping[str, float] = {}
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._said: set[str] = set()
        if cache is not None:
            cache.warn = self._warn  # a finding of both processes is reported once
        os.register_at_fork(after_in_child=self._let_go)
        atexit.register(self.close)

    def request(
        self,
        identity: int,
        description: Any,
        on_ready: Callable[[int, Manifest, Path], object],
        on_failed: Callable[[int, str], object],
    ) -> None:
        """Ask for the recipe of a graph (`openhpu.compiler.program.description`). Does not wait for a compilation."""
        self._check_process()
        with self._changed:
            if self._closed:
                raise RuntimeError("the compile service is closed")
            self._start_thread()
        request = _Request(identity, description, on_ready, on_failed)
        try:
            self._look_up(request)
        except Exception as error:  # of ours, or a full disk
            self._call(on_failed, identity, f"{type(error).__name__}: {error}")

    def ahead(self) -> None:
        """Start the compile process now, so that its imports are done when the first graph comes. Where recipes are on
        disk, graphs may need no process: nothing happens then."""
        self._check_process()
        if self._cache is not None and self._cache.has_recipes():
            return
        with self._changed:
            if not self._closed:
                self._ahead = True
                self._start_thread()
                self._changed.notify_all()

    def _start_thread(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="openhpu-compile", daemon=True)
            thread.start()  # the system may refuse
            self._thread = thread

    def close(self) -> None:
        """End the compile process and drop open requests, without callbacks. May be called again."""
        atexit.unregister(self.close)
        if os.getpid() != self._owner:
            return
        with self._changed:
            already, self._closed = self._closed, True
            self._changed.notify_all()
        if already:
            return
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

    @staticmethod
    def _kill(process: subprocess.Popen[bytes] | None) -> None:
        """With its C++ compiler, which is in its group."""
        if process is not None and process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)

    def _look_up(self, request: _Request) -> None:
        self._prepare_folders()
        key = recipe_key(request.description)
        if found := disk_cache.find(self._caches, request.description, key):
            self._call(request.on_ready, request.identity, *found)
            return
        caches = [(cache.path, cache.max_bytes) for cache in self._caches]
        description = request.description
        try:
            description = sections.as_files(description)
        except OSError as error:  # a full disk, a folder that is gone: they go as a message
            self._warn(f"constant sections are not written: {error}")
        message = pickle.dumps(tuple(server.Job(description, key, caches)))
        with self._changed:
            self._waiting.append((request, message))
            self._changed.notify_all()

    def _serve(self) -> None:
        leave_openmp_binding()  # of this thread, so also of the compile process
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or self._waiting or self._ahead)
                    if self._closed:
                        return
                    self._ahead = False
                try:
                    self._turn()
                except Exception as error:
                    self._fail(error)
        finally:
            self._clean_up()

    def _turn(self) -> None:
        """One compilation, by a process that is started if there is none."""
        if self._connection is not None and self._connection.poll():  # it greets; or it died, or was not asked
            try:
                self._greet()
            except _Failure:
                self._end_process(patience=0.0)
        if self._process is None:
            with no_fork:
                self._start_process()
        if not self._waiting or self._closed:
            return
        if not self._greeted:
            self._greet()
        request, message = self._next()
        self._current = request
        with self._talking() as connection:
            try:
                connection.send_bytes(bytes([self._may_wait()]) + message)
            except ConnectionError:  # it died since its last answer: the next turn starts another
                self._end_process()
                self._waiting.appendleft((request, message))
                self._current = None
                return
        said = self._received(_LONGEST_ANSWER)
        with self._talking() as connection:
            if connection.poll():
                raise _Nonsense("more than an answer")
            answer = self._answer(said, request.description)
        self._current = None
        self.seconds = answer.seconds
        for note in answer.notes:
            self._warn(note)
        if answer.manifest is None or answer.folder is None:
            self._call(request.on_failed, request.identity, answer.error)
        else:
            self._call(request.on_ready, request.identity, answer.manifest, answer.folder)

    def _fail(self, error: Exception) -> None:
        """The request that the process has, or for which it was started, fails, and the thread goes on."""
        message = str(error)
        if not isinstance(error, _Failure):  # a defect of ours, or a system without memory or files
            report()
            message = f"{type(error).__name__}: {error}"
        self._end_process(patience=0.0)
        request, self._current = self._current, None
        if request is None and self._waiting:
            request, _ = self._next()
        if request is not None:
            self._call(request.on_failed, request.identity, message)

    def _next(self) -> tuple[_Request, bytes]:
        """Of the requests that somebody waits for, otherwise of all: the largest graph, which gains most."""
        urgent: Collection[int] = ()
        with contextlib.suppress(Exception):
            urgent = self._urgent()
        with self._changed:
            awaited = [entry for entry in self._waiting if entry[0].identity in urgent]
            chosen = max(awaited or self._waiting, key=lambda entry: len(entry[0].description["nodes"]))
            self._waiting.remove(chosen)
        return chosen

    def _may_wait(self) -> bool:
        """Whether the process gets idle cores only."""
        return self._idle and not self._hurry()

    @contextlib.contextmanager
    def _talking(self) -> Iterator[Connection]:
        """The connection, whose errors become the request's."""
        assert self._connection is not None
        try:
            yield self._connection
        except (EOFError, ConnectionError):
            raise _Failure(f"the compile process {self._end_process()}") from None
        except (BlockingIOError, TimeoutError):  # for a part of a message, or for an answer
            raise _Failure(
                f"the compile process did not answer within {self._deadline:g} s{self._phase()}, the limit that "
                "OPENHPU_COMPILE_DEADLINE sets, and was killed; the next graph starts another"
            ) from None
        except Exception as error:
            raise _Failure(
                f"the compile process answered nonsense ({error}) and was killed; the next graph starts another"
            ) from error

    def _phase(self) -> str:
        """In which phase the process is, as a part of a sentence."""
        assert self._work is not None
        with contextlib.suppress(OSError):
            if (path := self._work / server.PHASE).stat().st_size < _LONGEST_PHASE:
                return f" (phase: {path.read_text(errors='replace')})"
        return ""

    def _received(self, most: int) -> bytes:
        """The next message of the process, of at most so many bytes."""
        with self._talking() as connection:
            if not connection.poll(self._deadline):
                raise TimeoutError
            return connection.recv_bytes(most)

    def _greet(self) -> None:
        self._received(0)
        self._greeted = True

    @staticmethod
    def _answer(message: bytes, description: Any) -> server.Answer:
        """Raises any exception, if it is not an answer."""
        answer = server.Answer(*pickle.loads(message))
        if not (isinstance(answer.notes, list) and all(isinstance(note, str) for note in answer.notes)):
            raise _Nonsense("its notes are no texts")
        if not all(isinstance(name, str) and isinstance(took, float) for name, took in answer.seconds.items()):
            raise _Nonsense("its phases have no times")
        if answer.manifest is None and answer.folder is None and isinstance(answer.error, str):
            return answer
        if not (isinstance(answer.manifest, Manifest) and isinstance(answer.folder, Path)):
            raise _Nonsense("neither a recipe nor an error")
        for library in answer.manifest.libraries():
            if not (answer.folder / library).is_file():
                raise _Nonsense(f"{answer.folder} has no {library}")
        if wrong := misfit(answer.manifest, description):
            raise _Nonsense(f"the recipe does not fit the graph: {wrong}")
        return answer

    def _call(self, callback: Callable[..., object], *arguments: Any) -> None:
        try:
            if not self._closed:
                callback(*arguments)
        except BaseException:  # SystemExit, too, would end the thread
            report()

    def _prepare_folders(self) -> None:
        with self._changed:
            if self._caches:
                return
            if self._closed:  # nobody would remove them
                raise RuntimeError("the compile service is closed")
            self._work = Path(tempfile.mkdtemp(prefix="openhpu-compile-"))
            private = DiskCache(self._work / "recipes", None, warn=self._warn)
            self._caches = [private] if self._cache is None else [self._cache, private]

    def _warn(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            try:
                self._tell(message)
            except Exception:  # a warning that was made an error: there is nobody to catch it here
                report()

    def _start_process(self) -> None:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(True)  # also where the script has set a default timeout
        if self._deadline is not None:  # for each part of a message: a process that stops must not hold this thread
            limit = struct.pack("ll", int(self._deadline), max(1, int(self._deadline % 1 * 1e6)))
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        try:
            self._prepare_folders()
            self._process = self._popen(theirs)
        except Exception as error:  # of the system
            for end in (ours, theirs):
                end.close()
            raise _Failure(f"{type(error).__name__}: {error}") from error
        self._connection = Connection(ours.detach())

    def _popen(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        assert self._work is not None
        self._work.mkdir(parents=True, exist_ok=True)  # somebody may tidy up temporary folders
        try:
            opened = (self._work / "log").open("wb")
        except OSError:  # a full disk
            opened = open(os.devnull, "wb")  # noqa: SIM115
        with theirs, opened as log:
            return subprocess.Popen(
                [
                    sys.executable or "python3",
                    "-P",
                    "-m",
                    server.__name__,
                    str(theirs.fileno()),
                    str(self._work),
                    str(int(self._may_wait())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                cwd=self._work,
                env=_environment(self._work),
                process_group=0,  # no Ctrl-C of the terminal; no session, in which Linux would not heed the policy
            )

    def _end_process(self, patience: float = 0.2) -> str:
        """Kill it, if it is alive after `patience` seconds: its connection ends a moment before it. What happened, as
        the end of a sentence about it."""
        process, self._process = self._process, None
        connection, self._connection = self._connection, None
        self._greeted = False
        if connection is not None:
            connection.close()
        if process is None:
            return "was not running"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        self._kill(process)
        try:
            code = process.wait(_DIE_S)
        except subprocess.TimeoutExpired:
            return "can't be ended"
        if code < 0:
            return f"was killed by signal {-code} ({signal.strsignal(-code)}); the next graph starts another"
        return f"ended with exit code {code}: {self._last_words()}"

    def _last_words(self) -> str:
        assert self._work is not None
        with contextlib.suppress(OSError):
            if said := (self._work / "log").read_text(errors="replace").strip().splitlines():
                return said[-1]
        return "it said nothing"

    def _clean_up(self) -> None:
        self._end_process(patience=0.0)
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _let_go(self) -> None:
        """A forked child would keep the connection open beyond its parent's end."""
        if self._connection is not None:
            self._connection.close()


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def _environment(work: Path) -> dict[str, str]:
    """The compile process's: it finds this package and this torch first, has no hpu device, and compiles alike for
    everybody, on any core."""
    dropped = "TORCHINDUCTOR_", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    installed = {os.path.abspath(path) for path in (*site.getsitepackages(), site.getusersitepackages())}
    places = [str(Path(__file__).parents[3]), str(Path(torch.__file__).parents[1])]
    # Installed packages are found anyway; in PYTHONPATH it would come before Python's own modules.
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
