"""A plain call apart from the world: what it prints or logs is not shown, and other effects are refused."""

import contextlib
import contextvars
import functools
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import torch

T = TypeVar("T")

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Audit events of Python that tell of an effect outside of what a function reaches, and what they are.
_EFFECTS = {
    **dict.fromkeys(
        ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"),
        "it changes files",
    ),
    **dict.fromkeys(("os.chown", "os.utime", "os.setxattr", "os.removexattr", "os.lockf"), "it changes files"),
    **dict.fromkeys(("shutil.copyfile", "shutil.move", "shutil.rmtree", "fcntl.flock"), "it changes files"),
    **dict.fromkeys(("tempfile.mkstemp", "tempfile.mkdtemp", "mmap.__new__"), "it makes files"),
    **dict.fromkeys(("os.putenv", "os.unsetenv"), "it changes variables of the environment"),
    **dict.fromkeys(("os.chdir", "os.fchdir"), "it changes the working folder"),
    **dict.fromkeys(
        ("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "subprocess.Popen"),
        "it starts a process",
    ),
    **dict.fromkeys(("os.kill", "os.killpg", "signal.pthread_kill"), "it sends a signal"),
    **dict.fromkeys(
        ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "sqlite3.connect", "urllib.Request"),
        "it talks to another program",
    ),
}
# Functions that start threads, of which not every version of Python tells.
_STARTS = ("_start_new_thread", "_start_joinable_thread")


class Outside(Exception):
    """The plain call is about to have an effect that can't be undone. The text says which."""


class _Here(threading.local):
    active = False  # the plain call runs on this thread
    reason = ""


_here = _Here()


@functools.cache
def _listen() -> None:
    sys.addaudithook(_audit)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _here.active:
        return
    why = _EFFECTS.get(event, "")
    if event == "open":
        path, mode, flags = args
        writes = any(letter in (mode or "") for letter in "wax+") or (isinstance(flags, int) and flags & _WRITES)
        if writes and str(path) != os.devnull and "__pycache__" not in str(path):
            why = f"it writes to the file {path}" if not isinstance(path, int) else "it writes to a file"
    if why:
        _refuse(why)


def _refuse(why: str) -> NoReturn:
    _here.reason = _here.reason or why
    raise Outside(why)


def run_apart(function: Callable[[], T]) -> T:
    """What `function` returns. Raises Outside, also where the function handled that.

    On this thread, prints, logs and warnings are not shown. Context variables and settings of PyTorch are as before at
    the end.
    """
    _listen()
    with _silent(), _without_threads(), _settings():
        _here.active, _here.reason = True, ""
        try:
            result = contextvars.copy_context().run(function)
        except Exception:
            if not _here.reason:
                raise
        finally:
            _here.active = False
    if _here.reason:
        raise Outside(_here.reason)
    return result


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """This thread shows nothing."""
    thread, handle = threading.get_ident(), logging.Logger.handle

    def silent_handle(self: logging.Logger, record: logging.LogRecord) -> None:
        if threading.get_ident() != thread:
            handle(self, record)

    ignore: Any = ("ignore", None, Warning, None, 0)
    streams = {id(each): each for each in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) if each is not None}
    with contextlib.ExitStack() as stack:
        for stream in streams.values():
            for each in (stream, getattr(stream, "buffer", None)):
                stack.enter_context(_mute(each, thread))
        logging.Logger.handle = silent_handle  # type: ignore[method-assign]
        # `warnings.catch_warnings` would let each warning that was shown once be shown again.
        filters: Any = warnings.filters
        filters.insert(0, ignore)
        try:
            yield
        finally:
            logging.Logger.handle = handle  # type: ignore[method-assign]
            if ignore in filters:
                filters.remove(ignore)


@contextlib.contextmanager
def _without_threads() -> Iterator[None]:
    """This thread starts no other one."""
    thread = threading.get_ident()
    starts = {name: getattr(threading, name) for name in _STARTS if hasattr(threading, name)}

    def start(plain: Callable[..., Any]) -> Callable[..., Any]:
        def start_here(*args: Any, **kwargs: Any) -> Any:
            return _refuse("it starts a thread") if threading.get_ident() == thread else plain(*args, **kwargs)

        return start_here

    for name, plain in starts.items():
        setattr(threading, name, start(plain))
    try:
        yield
    finally:
        for name, plain in starts.items():
            setattr(threading, name, plain)


@contextlib.contextmanager
def _mute(stream: Any, thread: int) -> Iterator[None]:
    write = getattr(stream, "write", None)
    own = vars(stream).get("write") if hasattr(stream, "__dict__") else None

    def muted(text: Any) -> Any:
        return len(text) if threading.get_ident() == thread else write(text)  # type: ignore[misc]

    try:
        stream.write = muted
    except AttributeError:  # it has no attributes of its own
        yield
        return
    try:
        yield
    finally:
        if own is None:
            del stream.write
        else:
            stream.write = own


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """PyTorch's settings of the thread and of the process are as before at the end."""
    dtype, gradients = torch.get_default_dtype(), torch.is_grad_enabled()
    deterministic = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    casts = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "hpu")]
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
        if (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ) != deterministic:
            torch.use_deterministic_algorithms(deterministic[0], warn_only=deterministic[1])
        for kind, enabled, cast in casts:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, cast)
