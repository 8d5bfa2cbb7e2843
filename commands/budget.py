"""A command's budget: how long it may run, what it says meanwhile, and how it ends.

    with Budget("make faults", 120) as budget:
        for fault in faults:
            with budget.doing("faults", fault):
                child.run([...], seconds=budget.seconds(600))
            budget.done(fault)

`BUDGET=minutes` in the environment changes the budget. It is printed at the start. At its end, at Ctrl-C and at SIGTERM
the main thread gets a `Stopped`; all children (commands/child.py) are stopped, a summary says what was done and what
was not, and the command exits with 124, 130 or 143, within five seconds. Where the main thread does not come back in
time, another thread does that in its place. A line each 30 s says what is being done. One command runs once at a time
in a checkout.
"""

import contextlib
import fcntl
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, NoReturn, Self

from commands import BUILD, child

LOCKS = BUILD / "locks"
VARIABLE = "BUDGET"
OVER = 124  # as of timeout(1)
BAD = 2  # a budget that is none, or a command that runs already
_EACH_S = 30.0  # a line of progress
_UNWIND_S = 4.0  # for the main thread, after which another one ends the process
_NAMES = 12  # of what was done or not, in the summary


class Stopped(BaseException):
    """The command has to end: its budget is used up, or a signal told it to."""

    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.why = why
        self.code = code


def minutes(name: str, default: float) -> float:
    """The budget of a command: `BUDGET`, or its own. Exits with 2 where `BUDGET` is not a number above 0.

    Takes `BUDGET` out of the environment: it is the command's, not that of its children.
    """
    given = os.environ.pop(VARIABLE, "").strip()
    if not given:
        return default
    try:
        found = float(given)
    except ValueError:
        found = math.nan
    if not (found > 0 and math.isfinite(found)):
        _refuse(f"{name}: {VARIABLE}={given} is not a number of minutes above 0; its own budget is {default:g}")
    return found


def _refuse(text: str) -> NoReturn:
    print(text, file=sys.stderr, flush=True)
    raise SystemExit(BAD)


def end_with(main: Callable[[], int]) -> NoReturn:
    """End this process as `main` says; at once where it was stopped: with PyTorch, Python takes seconds to end."""
    try:
        code = main()
    except SystemExit as ended:
        if isinstance(ended.__cause__, Stopped):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended.__cause__.code)
        raise
    sys.exit(code)


class Budget:
    """See above. `name` is the command's, as a user writes it; `default` are its minutes without `BUDGET`.

    `summary` gives lines for the summary at a premature end, after those of what was done and what was not.
    `quiet`: whether a line of progress is left out where the command said something else since the last one.
    """

    def __init__(
        self, name: str, default: float, summary: Callable[[], Iterable[str]] | None = None, quiet: bool = False
    ) -> None:
        self.name = name
        self.minutes = minutes(name, default)
        self.started = time.monotonic()
        self.end = self.started + self.minutes * 60
        self.summary = summary
        self._quiet = quiet
        self._last = self.started  # when something was said
        self._todo: dict[str, None] = {}
        self._done: dict[str, str] = {}
        self._doing: dict[str, tuple[str, float]] = {}
        self._ran_then: list[tuple[str, tuple[str, float]]] | None = None  # when it was stopped
        self._stopped: Stopped | None = None
        self._lock_file: IO[str] | None = None
        self._over = threading.Event()  # the command has ended, or its summary was printed
        self._saying = threading.Lock()

    # Reports of a command about itself.

    def seconds(self, most: float = math.inf) -> float:
        """For a child: what is left of the budget, at most `most`, at least one."""
        return max(1.0, min(most, self.end - time.monotonic()))

    def planned(self, names: Iterable[str]) -> None:
        """The planned work, for the summary."""
        self._todo.update(dict.fromkeys(names))

    def done(self, name: str, how: str = "") -> None:
        """Something was done, with a word on how it went."""
        self._todo.pop(name, None)
        self._done[name] = how

    @contextlib.contextmanager
    def doing(self, suite: str, test: str) -> Iterator[None]:
        """The current work of a lane, for the lines of progress."""
        self.progress(suite, test)
        try:
            yield
        finally:
            self.progress(suite, None)

    def progress(self, suite: str, test: str | None) -> None:
        """The current work of a suite; None: it has ended."""
        if test is None:
            self._doing.pop(suite, None)
        else:
            self._doing[suite] = test, time.monotonic()

    def say(self, *lines: str) -> None:
        """Print lines, together."""
        with self._saying:
            self._last = time.monotonic()
            print("\n".join(lines), flush=True)

    def _say_progress(self) -> None:
        now = time.monotonic()
        head = f"[{(now - self.started) / 60:.1f} of {self.minutes:.3g} min]"
        doing = [f"{head} {suite}: {test}, {now - since:.0f} s" for suite, (test, since) in list(self._doing.items())]
        self.say(*doing or [f"{head} {self.name}"])

    def summary_of(self, why: str) -> list[str]:
        """The finished and the unfinished work, in lines, for a premature end."""

        def named(names: Iterable[str]) -> str:
            listed = list(names)
            return ", ".join(listed[:_NAMES]) + (f" and {len(listed) - _NAMES} more" if len(listed) > _NAMES else "")

        now = time.monotonic()
        doing = (dict(self._ran_then or []) | self._doing).items()
        lines = [f"{self.name}: {why} after {(now - self.started) / 60:.1f} min"]
        lines += [f"  ran then: {suite}: {test}, for {now - since:.0f} s" for suite, (test, since) in doing]
        done = (f"{name} ({how})" if how else name for name, how in self._done.items())
        lines += [f"  done: {named(done) or 'nothing'}"]
        lines += [f"  not done: {named(self._todo)}"] if self._todo else []
        with contextlib.suppress(Exception):
            lines += self.summary() if self.summary else []
        return lines

    # Its life.

    def __enter__(self) -> Self:
        self._take_lock()
        print(f"{self.name}: at most {self.minutes:g} min ({VARIABLE}=minutes changes it)", flush=True)
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        self._wake = wake
        self._handlers = {
            number: signal.signal(number, self._signal) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
        }
        # Written by the C code of a signal, so that the other thread sees it even if the main thread is stuck.
        self._wakeup = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._main = threading.get_ident()
        self._watcher = threading.Thread(target=self._watch, name="budget", daemon=True)
        self._watcher.start()
        return self

    def _take_lock(self) -> None:
        LOCKS.mkdir(parents=True, exist_ok=True)
        path = LOCKS / f"{''.join(c if c.isalnum() else '-' for c in self.name)}.lock"
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            who = file.read().strip()
            file.close()
            _refuse(
                f"{self.name} runs in this checkout already{f', as process {who}' if who else ''}; wait for it or "
                "end it. Nothing was changed"
            )
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._lock_file = file

    def _signal(self, number: int, frame: object) -> None:
        if self._stopped is None and not self._over.is_set():
            self._stopped = self._why(number)
            raise self._stopped

    def _why(self, number: int) -> Stopped:
        if number == signal.SIGINT:
            return Stopped("interrupted", 130)
        if number == signal.SIGTERM:
            return Stopped("told to end", 143)
        return Stopped(f"its budget of {self.minutes:g} min is used up", OVER)

    def _watch(self) -> None:
        """The other thread: lines of progress, the end of the budget, and of a process whose main thread is stuck."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        said = time.monotonic()
        number = None
        while number is None:
            now = time.monotonic()
            if now >= self.end:
                number = signal.SIGALRM
                signal.pthread_kill(self._main, number)
            elif now - said >= _EACH_S - 1:
                said = now
                if not self._quiet or now - self._last >= _EACH_S - 1:
                    self._say_progress()
            elif poll.poll(max(0.0, min(self.end, said + _EACH_S - 1) - now) * 1000 + 1):
                came = os.read(self._woken, 100)
                if self._over.is_set():
                    return
                number = next((each for each in (signal.SIGINT, signal.SIGTERM) if each in came), None)
        end = time.monotonic() + _UNWIND_S
        self._ran_then = list(self._doing.items())  # before the children end
        child.stop_all()
        if not self._over.wait(max(0.0, end - time.monotonic())):
            stopped = self._why(number)
            with contextlib.suppress(ValueError, OSError):
                print("\n".join(self.summary_of(stopped.why)), flush=True)
            os._exit(stopped.code)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        stopped = self._stopped
        if stopped is not None:
            child.stop_all()
            self.say(*self.summary_of(stopped.why))
        self._over.set()
        os.write(self._wake, b"\0")
        self._watcher.join(_UNWIND_S)
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._wake)
        os.close(self._woken)
        if self._lock_file:
            self._lock_file.close()
        if stopped is not None:
            raise SystemExit(stopped.code) from error
