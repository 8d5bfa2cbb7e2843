"""The one way to run a child process: it has a deadline, and nothing of it outlives the deadline or this process.

`run` waits for a command, `start` runs one beside. A small process (commands/supervisor.py) holds each command. At the
deadline, or when this process ends, even by SIGKILL, it kills the command and all its descendants, also those in other
sessions: SIGTERM first, SIGKILL two seconds later. The output of a command goes to a file, which can be followed while
it runs.
"""

import contextlib
import dataclasses
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import unquote

if TYPE_CHECKING:
    from commands.fork_server import Forked, ForkServer

GRACE_S = 2.0  # between SIGTERM and SIGKILL
FAREWELL_S = 0.5  # for what ends by itself a moment after the command
_START_S = 60.0  # for the supervisor, on a busy machine
_END_S = 15.0  # for the supervisor to kill and report, beyond the grace
_FOLLOW_S = 0.2
_TAIL = 20  # lines
_MOST = 16 << 20  # bytes of output that are kept in memory
_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))

_live: "weakref.WeakSet[Child]" = weakref.WeakSet()
_live_lock = threading.Lock()
_ending = threading.Event()  # since `stop_all`: nothing more is started


class ChildError(RuntimeError):
    """A child ended before its time, gave no answer, or may not be started any more."""


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a child ended.

    `code`: its returncode, negative for a signal; that of SIGKILL if it was killed with its descendants.
    `timed_out`: whether it was killed at its deadline.
    `stopped`: whether it was killed before, by `Child.stop` or a signal.
    `seconds`: how long it ran.
    `output`: what it printed (its last 16 MiB); `errors`: what it printed on stderr, if that was kept apart.
    `killed`: the processes that it left behind, or at its deadline all of its processes: number and command line.
    `log`: the file of its output; None if that was a temporary one.
    """

    code: int
    timed_out: bool
    stopped: bool
    seconds: float
    output: str
    errors: str
    killed: tuple[str, ...]
    log: Path | None

    @property
    def tail(self) -> str:
        """The last lines of what it printed, on stderr if that was kept apart and is not empty."""
        return "\n".join((self.errors or self.output).rstrip().splitlines()[-_TAIL:])

    @property
    def how(self) -> str:
        """In words: "exit status 1", "SIGSEGV", "not finished after 3 s"."""
        if self.timed_out:
            return f"not finished after {self.seconds:.0f} s"
        if self.stopped:
            return f"stopped after {self.seconds:.0f} s"
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-self.code).name
        return f"exit status {self.code}"

    def checked(self, what: str, error: type[Exception] = ChildError) -> Self:
        """It; or `error`, which says what it was, how it ended and its last words, if its exit status is not 0."""
        if self.code:
            raise error(f"{what}: {self.how}{f'; see {self.log}' if self.log else ''}\n{self.tail}")
        return self


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    seconds: float,
    on_line: Callable[[str], object] | None = None,
    **options: Any,
) -> Ended:
    """Run a command to its end, at most so many seconds. Its exit status is not checked.

    `on_line` gets each line without its end, soon after it is printed. `options` are Child's. Raises OSError if the
    command cannot be started. An exception that comes meanwhile, a Ctrl-C above all, stops it first.
    """
    with Child(argv, seconds=seconds, **options) as child:
        try:
            while child.poll(_FOLLOW_S if on_line else 3600.0) is None:
                for line in child.lines():
                    on_line(line)  # type: ignore[misc]
        finally:
            child.stop()
            if on_line:
                for line in child.lines(all=True):
                    on_line(line)
        return child.wait()


def run_at_once(several: Iterable[Mapping[str, Any]]) -> Iterator[Ended]:
    """Run commands beside each other, each with Child's arguments; how they ended, in this order. What still runs is
    stopped where the caller takes no more of them."""
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(Child(**one)) for one in several]
        for child in children:
            yield child.wait()


def stop_all() -> None:
    """Stop all children at once, and start none any more; for the end of a command."""
    _ending.set()
    with _live_lock:
        live = list(_live)
    for child in live:
        child.tell("stop")
    for child in live:
        child.stop()


def _ready(file: int, what: int, end: float) -> bool:
    """Whether a file can be read, or written, before `end`. Not select's, which knows the first 1,024 files only."""
    poll = select.poll()
    poll.register(file, what)
    return bool(poll.poll(max(0.0, end - time.monotonic()) * 1000))


def ending() -> bool:
    """Whether `stop_all` was called: what ended since then was stopped."""
    return _ending.is_set()


class _Limits(NamedTuple):
    """Times of a child, in seconds: see `Child`."""

    seconds: float
    grace: float
    farewell: float


_PIPES = subprocess.PIPE, subprocess.PIPE


def _request(
    argv: list[str], limits: _Limits, env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None
) -> dict[str, Any]:
    """What the fork server is asked for."""
    environment = dict(os.environ if env is None else env)
    return {"argv": argv, **limits._asdict(), "env": environment, "cwd": os.path.abspath(cwd or ".")}


def _write(file: Any, text: str | bytes) -> None:
    """Write what a child reads, from the file's beginning."""
    file.write(text.encode() if isinstance(text, str) else text)
    file.seek(0)


class Child:
    """A command that runs beside, at most so many seconds. Use with `with`; it is stopped when it is left.

    `log` is a file for what it prints (it is emptied first; None: a temporary one). `input` is its stdin, which is
    empty otherwise. `split` keeps stderr apart. With `talk` its stdin and stdout are pipes to this process, and the log
    has its stderr. `grace` are the seconds between SIGTERM and SIGKILL, `farewell` those that its own processes have
    after its end, before they are killed. `server` forks a Python script (commands/fork_server.py).
    """

    _ended: Ended | None = None
    _stopped = False
    _at = 0  # of the log, what was read
    _came = b""  # of the supervisor's report
    _rest = b""  # of the child's answers
    _line = b""  # of the log, not complete yet

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        seconds: float,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        input: str | bytes | None = None,
        split: bool = False,
        talk: bool = False,
        grace: float = GRACE_S,
        farewell: float = FAREWELL_S,
        server: "ForkServer | None" = None,
    ):
        if not seconds > 0:
            raise ValueError(f"a child needs a time above 0 s, not {seconds} s: {argv}")
        self.argv = [os.fspath(word) for word in argv]
        self.log = log
        self._grace = grace
        self._lock = threading.RLock()
        with contextlib.ExitStack() as stack:
            self._out = stack.enter_context(open(log, "w+b") if log else tempfile.TemporaryFile())  # noqa: SIM115
            self._err = stack.enter_context(tempfile.TemporaryFile()) if split else None
            given = stack.enter_context(tempfile.TemporaryFile())
            if input is not None:
                _write(given, input)
            self._socket, theirs = socket.socketpair()
            stack.enter_context(self._socket)
            self._started = time.monotonic()
            with self._lock:  # which `stop_all` of another thread waits for
                with theirs, _live_lock:
                    if _ending.is_set():
                        raise ChildError(f"no process is started any more, since this command ends: {self.argv}")
                    limits = _Limits(seconds, grace, farewell)
                    self._process: subprocess.Popen[bytes] | Forked
                    if server:
                        assert not talk
                        files = (given, self._out, self._err or self._out, theirs)
                        self._process = server.start(
                            _request(self.argv, limits, env, cwd), [file.fileno() for file in files]
                        )
                    else:
                        streams = _PIPES if talk else (given, self._out)
                        self._process = self._supervised(streams, theirs, limits, env, cwd)
                    _live.add(self)
                stack.callback(self._close)
                self.pid = self._begin()
            self._files = stack.pop_all()

    def _supervised(
        self,
        streams: tuple[Any, Any],
        report: socket.socket,
        limits: _Limits,
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
    ) -> "subprocess.Popen[bytes]":
        """The supervisor, which runs the command. `streams`: its stdin and stdout. `report`: a socket."""
        supervisor = [sys.executable, "-I", "-S", _SUPERVISOR, str(report.fileno())]
        return subprocess.Popen(
            [*supervisor, *map(str, limits), str(os.getpid()), *self.argv],
            stdin=streams[0],
            stdout=streams[1],
            stderr=self._err or self._out,
            bufsize=0,
            env=env,
            cwd=cwd,
            pass_fds=[report.fileno()],
            start_new_session=True,
        )

    def _begin(self) -> int:
        """Wait for the supervisor's first words; the command's process."""
        words = self._report(_START_S)
        if words and words[0] == "started":
            return int(words[1])
        if words and words[0] == "failed":
            raise OSError(int(words[1]), os.strerror(int(words[1])), self.argv[0])
        raise ChildError(f"the supervisor did not start {self.argv}")

    def _close(self) -> None:
        """Close what belongs to it. A supervisor that still runs takes that as the end of this process."""
        self._socket.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(self._grace + _END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its command dies with it
            self._process.wait()
        with _live_lock:
            _live.discard(self)

    def _report(self, seconds: float) -> list[str] | None:
        """The supervisor's next line in words; [] if it has ended without one; None if none comes in time."""
        end = time.monotonic() + seconds
        while b"\n" not in self._came:
            if not _ready(self._socket.fileno(), select.POLLIN, end):
                return None
            with contextlib.suppress(OSError):
                if piece := self._socket.recv(1 << 16):
                    self._came += piece
                    continue
            return []
        line, _, self._came = self._came.partition(b"\n")
        return line.decode().split(" ")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._files.close()

    # Its life.

    def poll(self, seconds: float = 0.0) -> Ended | None:
        """How it ended; None if it runs, after so many seconds of waiting for its end."""
        end = time.monotonic() + seconds
        while self._ended is None:
            left = max(0.0, end - time.monotonic())
            with self._lock:
                if self._ended is None and (words := self._report(min(1.0, left))) is not None:
                    self._finish(words)
            if not left:
                break
        return self._ended

    def wait(self, seconds: float = 1e9) -> Ended:
        """How it ended; after so many seconds, or its own, it is stopped and has timed out."""
        if (ended := self.poll(seconds)) is None:
            ended = self._ended = dataclasses.replace(self.stop(), timed_out=True, stopped=False)
        return ended

    def stop(self) -> Ended:
        """Kill it with all its descendants, if it has not ended; how it ended."""
        if self._ended is None:
            self._stopped = True
            self.tell("stop")
            if self.poll(self._grace + _END_S) is None:
                with self._lock:
                    self._process.kill()  # its command dies with it
                    self._finish([])
        assert self._ended
        return self._ended

    def kill(self) -> None:
        """Kill it with all its descendants by SIGKILL, without waiting for that: `wait` or `stop` do."""
        self._stopped = self._stopped or self._ended is None
        self.tell("kill")

    def send_signal(self, number: int) -> None:
        """Send a signal to the command, if it has not ended."""
        self.tell(f"signal {int(number)}")

    def tell(self, words: str) -> None:
        """Tell the supervisor something; `stop_all` tells all first."""
        with contextlib.suppress(OSError):
            self._socket.send(f"{words}\n".encode())

    def _finish(self, words: list[str]) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        code, timed_out = (int(words[1]), words[2] == "1") if words else (-signal.SIGKILL, False)
        self._ended = Ended(
            code,
            timed_out,
            self._stopped and not timed_out,
            time.monotonic() - self._started,
            self._text(self._out.fileno()),
            self._text(self._err.fileno()) if self._err else "",
            tuple(map(unquote, words[3:])),
            self.log,
        )

    # Its output.

    @staticmethod
    def _text(file: int) -> str:
        size = os.fstat(file).st_size
        return os.pread(file, _MOST, max(0, size - _MOST)).decode(errors="replace")

    def printed(self) -> str:
        """What it has printed by now, on stderr where that is apart or stdout is a pipe."""
        return self._text((self._err or self._out).fileno())

    def lines(self, all: bool = False) -> list[str]:
        """The lines that it has printed since the last call; with `all` also one that is not complete."""
        while piece := os.pread(self._out.fileno(), 1 << 20, self._at):
            self._at += len(piece)
            self._line += piece
        *lines, self._line = self._line.split(b"\n")
        if all and self._line:
            lines.append(self._line)
            self._line = b""
        return [line.decode(errors="replace") for line in lines]

    # Talking to it, with `talk`.

    def send(self, message: str, seconds: float = 60.0) -> None:
        """Write to its stdin. ChildError if it has ended, or does not read in so many seconds."""
        assert self._process.stdin
        file = self._process.stdin.fileno()
        left = memoryview(message.encode())
        os.set_blocking(file, False)
        end = time.monotonic() + seconds
        while left:
            if not _ready(file, select.POLLOUT, end):
                raise ChildError(self.story(f"did not read in {seconds:.0f} s"))
            try:
                left = left[os.write(file, left) :]
            except BlockingIOError:
                continue
            except OSError:
                raise ChildError(self.story("has ended")) from None

    def close_input(self) -> None:
        """Close its stdin, which ends most of those that answer."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def answer(self, seconds: float) -> str:
        """The next line of its stdout, without its end. ChildError if it ends before, or none comes in time."""
        assert self._process.stdout
        file = self._process.stdout.fileno()
        end = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if not _ready(file, select.POLLIN, end):
                raise ChildError(self.story(f"gave no answer in {seconds:.0f} s"))
            piece = os.read(file, 1 << 16)
            if not piece:
                raise ChildError(self.story("has ended"))
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")

    def story(self, what: str) -> str:
        """An error's text: which child, what it did, and its last words."""
        if what == "has ended":
            ended = self.poll(_START_S)
            what = f"has ended with {ended.how}" if ended else "has closed its output, and runs"
        said = "\n".join(self.printed().rstrip().splitlines()[-_TAIL:])
        return f"`{' '.join(self.argv)[:300]}` {what}; it printed:\n{said or '(nothing)'}"


start = Child
