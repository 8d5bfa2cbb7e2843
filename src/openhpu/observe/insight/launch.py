"""`openhpu run`: starts a script in a process of its own, and shows the documents that its processes left.

The script runs in an ordinary Python process, with its own arguments, exit code and child processes. However that
process ends, this process reports it.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from openhpu.observe import added_sections
from openhpu.observe.insight import sentences, summary
from openhpu.observe.insight.documents import empty, read_all
from openhpu.observe.insight.schema import Document
from openhpu.settings.output import write_output

_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1}
_ANSWER_S = 10.0  # of processes that are asked what they have seen so far
_MODES = {None: "", "eager": "0", "lazy": "1"}  # PT_HPU_LAZY_MODE by `--mode`
_BY_SIGNAL = 128  # an exit code from here on
_FROM_THE_KERNEL = 128  # si_code of a signal that a terminal sends to all processes of its group


class UsageError(Exception):
    """The request cannot be fulfilled; the script was not started."""


# By the word of `--fail-on`: the part of the document.
FAILURES = {
    "fallback": "fallbacks",
    "recompilation": "recompilations",
    "read": "blocking_reads",
    "shape": "shape_waits",
    "index": "indices_out_of_range",
    "overflow": "int64_overflows",
    "move": "moved_operands",
    "difference": "differences",
    "capture": "captures_later",
    "graph-check": "graph_differences",
}
_OLDER_WORDS = {"kindness": "difference"}
FAILED = 3


def failures(text: str) -> list[str]:
    """The words of `--fail-on`. UsageError for one that is none."""
    given = [word.strip() for word in text.split(",") if word.strip()]
    words = [_OLDER_WORDS.get(word, word) for word in given]
    for word in words:
        if word not in FAILURES:
            raise UsageError(f"--fail-on: expected {', '.join(FAILURES)}, got {word!r}")
    return words


def run(command: list[str], options: argparse.Namespace) -> int:
    """Run `command` (a script, `-m module` or `-- program`, with arguments) and show the report.

    `options`: those of the command `openhpu run`. Returns its exit code; FAILED where that is 0 and something of
    `fail_on` was seen. Raises UsageError for a wrong option, when there is no such script, or the report could not be
    written.
    """
    fail_on = failures(options.fail_on)
    arguments = _arguments(command)
    if options.predict:
        try:
            added_sections.make(options.predict)
        except added_sections.SectionError as error:
            raise UsageError(str(error)) from error
    target = _check_writable(Path(options.report)) if options.report else None
    with tempfile.TemporaryDirectory(prefix="openhpu-run-") as folder:
        code = _run_script(
            arguments,
            _environment(folder, options, options.check_graphs or "graph-check" in fail_on),
            lambda: _show(_so_far(Path(folder)), None, target),
        )
        nothing = empty(" ".join(command).removeprefix("-- "), code < _BY_SIGNAL)
        documents = read_all(Path(folder)) or [nothing]
    _show(documents, code, target)
    found = [word for word in fail_on if _seen(word, documents)]
    if found:
        sys.stderr.write(f"openhpu run: failed because of --fail-on: {', '.join(found)}; the lines are above\n")
    ended = code or (FAILED if found else 0)
    if options.json:
        told = {**documents[0], "exit_code": code, "other_processes": documents[1:]}
        write_output("openhpu run", json.dumps(told), ended)
    return ended


def _seen(word: str, documents: Sequence[Mapping[str, object]]) -> bool:
    return any(document[FAILURES[word]] for document in documents)


def _arguments(command: list[str]) -> list[str]:
    """Those that start the process. Without `--`, a script goes before a program of its name. Raises UsageError."""
    named = command[0] == "--"
    name, *rest = command[named:]
    is_file = Path(name).is_file() or Path(name, "__main__.py").is_file()
    if name == "-m" or (is_file and (not named or name.endswith(".py"))):
        return [sys.executable, *subprocess._args_from_interpreter_flags(), name, *rest]  # type: ignore[attr-defined]
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    if program := shutil.which(name, path=os.pathsep.join(folders)):
        return [program, *rest]
    raise UsageError(f"there is no script {name!r}; expected a file, -m and a module, or -- and an executable program")


def _check_writable(target: Path) -> Path:
    """`target`, if a file can be written there. Leaves no trace. Raises UsageError."""
    existed = target.exists()
    try:
        with target.open("ab"):
            pass
        if not existed:
            target.unlink()
    except OSError as error:
        raise UsageError(f"the report cannot be written to {target}: {error.strerror}; choose another path") from error
    return target.absolute()


def _environment(folder: str, options: argparse.Namespace, check_graphs: bool) -> dict[str, str]:
    wanted = {
        "OPENHPU_REPORT_DATA": folder,
        "OPENHPU_PREDICT": options.predict,
        "OPENHPU_STRICT": "gaudi" if options.strict else "",
        "OPENHPU_CHECK_GRAPHS": "1" if check_graphs else "",
        "PT_HPU_LAZY_MODE": _MODES[options.mode],
    }
    environment = {**os.environ, **{name: value for name, value in wanted.items() if value}}
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    return environment


def _show(documents: list[Document], code: int | None, target: Path | None) -> None:
    """Write the summary, and the pages if they are wanted. `code`: None while the script runs."""
    sys.stderr.write(summary.text(documents, code))
    sys.stderr.flush()
    if target is not None and documents:
        _write_reports(target, documents)


def _so_far(folder: Path) -> list[Document]:
    """What the running processes have seen: each that listens is asked by SIGUSR1, and has some seconds to answer."""
    waiting = {path: path.stat().st_mtime_ns for path in folder.glob("*.json") if _listens(path.stem)}
    for path in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(path.stem), signal.SIGUSR1)
    end = time.monotonic() + _ANSWER_S
    while waiting and time.monotonic() < end:
        time.sleep(0.05)
        waiting = {path: then for path, then in waiting.items() if path.stat().st_mtime_ns == then}
    return [{**one, "running": _listens(one["process"]["pid"])} for one in read_all(folder)]


def _listens(pid: object) -> bool:
    """Whether a process has a handler of SIGUSR1; without one the signal would end it."""
    try:
        caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return False
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGUSR1 - 1) & 1)


def _run_script(arguments: list[str], environment: dict[str, str], tell: Callable[[], None]) -> int:
    """Wait for the script. Signals for this process alone are passed on; those of a terminal it gets itself.

    SIGUSR1 is not passed on: it calls `tell`.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        try:
            process = subprocess.Popen(
                arguments, env=environment, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before)
            )
        except OSError as error:
            raise UsageError(f"{arguments[0]} cannot be started: {error.strerror}") from error
        while process.poll() is None:
            info = signal.sigtimedwait(_SIGNALS, 1.0)
            if info is not None and info.si_signo == signal.SIGUSR1:
                tell()
            elif info is not None and info.si_signo != signal.SIGCHLD and info.si_code != _FROM_THE_KERNEL:
                process.send_signal(info.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process.returncode if process.returncode >= 0 else _BY_SIGNAL - process.returncode


def _write_reports(target: Path, documents: list[Document]) -> None:
    from openhpu.observe.insight import page

    ranked = documents[0]["process"]["rank"] is not None
    for number, found in enumerate(documents):
        path = target
        if ranked or number:
            path = target.with_name(f"{target.stem}-{sentences.title(found).replace(' ', '')}{target.suffix}")
        try:
            path.write_text(page.text(found), encoding="utf-8")
            sys.stderr.write(f"report: {path}\n")
        except OSError as error:
            sys.stderr.write(f"openhpu: the report could not be written to {path}: {error.strerror}\n")
