"""The command of the benchmarks: what hangs or fails in one is named, and costs no other one."""

import os
import re
import signal
import textwrap

import pytest

from benchmarks import parts
from commands.kept import Kept
from tests.python.commands import planted

COMMAND = """
import os, sys
from benchmarks.__main__ import main
print(os.getpid(), flush=True)
sys.exit(main(sys.argv[1:]))
"""
# Read by every Python process of the command: a probe dies at once, the process that compiles never answers.
SITE = """
    import os, sys, time
    if "memory:peak" in sys.orig_argv:
        os._exit(3)
    if "openhpu.compiler.server" in sys.orig_argv:
        time.sleep(3600)
"""


def test_what_dies_and_what_hangs_is_named(tmp_path):
    """A peer that dies at import fails its benchmark; the next one waits for a compilation, and is told to end."""
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(SITE))
    paths = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))

    said = []

    def heard(line):
        said.append(line)
        if line == f"{parts.MARK}overhead":
            os.kill(int(said[0]), signal.SIGTERM)

    ended, _ = planted.run(tmp_path, COMMAND, "memory", "graphs", "--quick", PYTHONPATH=paths, on_line=heard)
    assert ended.code == 143, ended.output
    assert re.search("memory: exit status 1: MLP 64-.*\n", ended.output)
    assert 'benchmarks.children memory:peak ["MLP", "hpu"]`: exit status 3' in ended.output
    assert "ran then: graphs: overhead, for " in ended.output
    assert not planted.processes_with("benchmarks.measure")


def test_parts_that_are_done_are_not_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_kept", Kept("it", "f", tmp_path))
    calls = []

    def measure(x):
        calls.append(x)
        if x == 2 and len(calls) == 2:
            raise RuntimeError("the time is over")
        return [x, float("nan")]

    assert parts.part("one", measure, 1)[0] == 1
    with pytest.raises(RuntimeError):
        parts.part("two", measure, 2)
    monkeypatch.setattr(parts, "_kept", Kept("it", "f", tmp_path))
    assert parts.part("one", measure, 1)[0] == 1
    assert parts.part("two", measure, 2)[0] == 2
    assert calls == [1, 2, 2]
