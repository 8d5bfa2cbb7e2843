"""A process that has imported PyTorch, and forks one that runs a script: it saves the script that import.

`ForkServer` is the parent's side. `commands.child.start(..., server=server)` takes Python's `-c CODE` or a file as its
command, and works as without a server: a forked supervisor (commands/supervisor.py) holds the forked script, which
ends as an interpreter does. The script begins with its own environment, folder, warnings and `sys.path`. PyTorch loads
its device backends where the script imports torch. What PyTorch and OpenMP read from the environment when they are
loaded is the server's.
"""

import builtins
import contextlib
import faulthandler
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commands.supervisor import Supervisor

_MESSAGE = 1 << 20  # bytes
_START_S = 300.0
_LIFE_S = 6 * 3600.0
_KEPT = 1 << 12  # file descriptors from here on are nobody's


class Forked:
    """A supervisor that the server forked, with what `child.Child` uses of `subprocess.Popen`."""

    stdin = stdout = None

    def __init__(self, pid: int) -> None:
        try:
            self._file = os.pidfd_open(pid)
        except ProcessLookupError:
            self._file = -1

    def wait(self, timeout: float = 60.0) -> None:
        if self._file >= 0:
            poll = select.poll()
            poll.register(self._file, select.POLLIN)
            if not poll.poll(timeout * 1000):
                raise subprocess.TimeoutExpired("a forked supervisor", timeout)
            os.close(self._file)
            self._file = -1

    def kill(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._file, signal.SIGKILL)


class ForkServer:
    """The server of this process, which ends with it; it has imported `modules`, with these environment variables.

    Raises ChildError where it does not begin in time.
    """

    def __init__(self, *modules: str, **variables: str) -> None:
        from commands import ROOT, child

        self._folder = tempfile.TemporaryDirectory()
        path = f"{self._folder.name}/socket"
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **variables}
        environment.pop("PYTHONPATH", None)
        self._process = child.start(
            [sys.executable, "-m", "commands.fork_server", path, *modules],
            seconds=_LIFE_S,
            env=environment,
            cwd=ROOT,
            talk=True,
        )
        if self._process.answer(_START_S) != "listening":
            raise child.ChildError(self._process.story("does not listen"))
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.connect(path)
        self._channel.settimeout(_START_S)

    def start(self, request: dict[str, Any], files: Sequence[int]) -> Forked:
        """Fork a supervisor with these files as stdin, stdout, stderr and its socket."""
        socket.send_fds(self._channel, [json.dumps(request).encode()], files)
        return Forked(int(self._channel.recv(100)))

    def close(self) -> None:
        self._channel.close()
        self._process.__exit__(None, None, None)
        self._folder.cleanup()


# In the server, and in what it forks.


class _Begin(BaseException):
    """Unwinds the stack of the forked script's process."""


class _Supervisor(Supervisor):
    def become(self, command: Sequence[str]) -> None:
        raise _Begin


def _serve(listening: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Answer requests until there are none; returns in each supervisor."""
    print("listening", flush=True)
    channel, _ = listening.accept()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    while True:
        message, files, _, _ = socket.recv_fds(channel, _MESSAGE, 4)
        if not message:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            channel.close()
            listening.close()
            return json.loads(message), files
        for file in files:
            os.close(file)
        channel.send(str(pid).encode())


def _supervise(request: dict[str, Any], files: list[int], server: int) -> None:
    """Be the supervisor; returns in the script's process."""
    os.setsid()
    os.chdir(request["cwd"])
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    try:
        _Supervisor(files[3], request["seconds"], request["grace"], request["farewell"], server, request["argv"]).run()
    except _Begin:
        os.closerange(3, _KEPT)
        return
    os._exit(0)


def _load_backends_with_torch() -> None:
    """As the first `import torch` does."""
    original = builtins.__import__

    def first(name: str, *rest: Any, **more: Any) -> Any:
        if name == "torch" or name.startswith("torch."):
            builtins.__import__ = original
            sys.modules["torch"]._import_device_backends()
        return original(name, *rest, **more)

    builtins.__import__ = first


def _prepare(request: dict[str, Any], usual: list[Any], paths: list[str]) -> tuple[str, str]:
    """Make this process what a new interpreter would be; the script and its name."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(request["env"])
    arguments = [*request["argv"][1:]]
    options = []
    faults = False
    while arguments[0] in ("-W", "-X"):
        if arguments.pop(0) == "-W":
            options.append(arguments.pop(0))
        else:
            faults = arguments.pop(0) == "faulthandler" or faults
    filters: Any = warnings.filters
    torchs = filters[: len(filters) - len(usual)]
    filters[:] = usual
    sys.warnoptions[:] = options
    warnings._processoptions(options)  # type: ignore[attr-defined]
    filters[:0] = torchs
    warnings._filters_mutated()  # type: ignore[attr-defined]
    if faults:
        faulthandler.enable()
    sys.argv = arguments
    if arguments[0] == "-c":
        code = arguments.pop(1)
        name = "<string>"
    else:
        name = arguments[0]
        code = Path(name).read_text()
    sys.path[:] = [
        "" if name == "<string>" else os.getcwd(),
        *filter(None, request["env"].get("PYTHONPATH", "").split(os.pathsep)),
        *paths,
    ]
    sys.orig_argv = request["argv"]
    if request["env"].get("TORCH_DEVICE_BACKEND_AUTOLOAD") != "0":
        _load_backends_with_torch()
    return code, name


if __name__ == "__main__":
    _usual = [*warnings.filters]
    _paths = sys.path[1:]
    _listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _path = sys.argv[1]
    _listening.bind(_path)
    _listening.listen(1)
    for _module in sys.argv[2:]:
        __import__(_module)
    gc.collect()
    gc.freeze()  # what it has is not looked at again
    _server = os.getpid()
    _request, _files = _serve(_listening)
    _supervise(_request, _files, _server)
    _code, _name = _prepare(_request, _usual, _paths)
    _main = types.ModuleType("__main__")
    _main.__dict__["__builtins__"] = builtins
    if _name != "<string>":
        _main.__file__ = _name
    sys.modules["__main__"] = _main
    exec(compile(_code, _name, "exec"), _main.__dict__)
