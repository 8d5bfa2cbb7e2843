"""Commands of this project, run as they are, with something in them that hangs."""

import os
import sys
import textwrap
import time
from pathlib import Path

from commands import ROOT, child

# A process in another session that holds the output, and then this one, which ignores SIGTERM.
ORPHAN = """
    import os, signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", {mark!r}], start_new_session=True)
    time.sleep(3600)
"""
# This process, which has closed its output.
MUTE = """
    import os, time
    os.closerange(1, 3)
    time.sleep(3600)
"""
SLACK_S = 10  # five, where the machine does nothing else


def processes_with(mark):
    """The command lines of processes that have it among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(words)
    return found


def run(folder, code, *arguments, seconds=200, on_line=None, **environment):
    """Run Python code that ends in a command, which keeps its locks and results in `folder`.

    How it ended, and the seconds from its first line on.
    """
    begun = []

    def heard(line):
        begun.append(time.monotonic())
        if on_line:
            on_line(line)

    clean = {name: value for name, value in os.environ.items() if name != "BUDGET"}
    ended = child.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], seconds=seconds, cwd=ROOT, on_line=heard,
        env={**clean, "COMMANDS_BUILD": str(folder / "build"), **environment},
    )  # fmt: skip
    return ended, time.monotonic() - begun[0]
