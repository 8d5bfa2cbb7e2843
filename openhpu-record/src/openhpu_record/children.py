"""Processes that this distribution starts: each has a deadline, and none outlives the one who started it."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

_GRACE_S = 10.0  # from SIGTERM to SIGKILL
_PR_SET_PDEATHSIG = 1


def python(
    arguments: Sequence[str], seconds: float | None = None, variables: Mapping[str, str] | None = None
) -> int | None:
    """Run Python with arguments in this terminal. Returns its exit code (below 0: a signal); None: it was too late.

    SIGTERM goes on to it. Ctrl-C reaches it by itself.
    """
    process = subprocess.Popen([sys.executable, *arguments], env={**os.environ, **(variables or {})})
    before = signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGTERM))
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        return None
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupted)
        if process.poll() is None:
            process.kill()
            process.wait(_GRACE_S)


def end_with_parent() -> None:
    """This process gets SIGTERM when the one that started it is gone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
