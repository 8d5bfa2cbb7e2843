"""Forks while a process is started."""

import os
import subprocess
import threading

import pytest

from openhpu.compiler.client import identity, service
from tests.python.openhpu.compiler.client.test_identity import compiler


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("start", ["compiler's version", "compile process"])
def test_nobody_forks_while_a_process_is_started(tmp_path, monkeypatch, start):
    """A forked process, such as a DataLoader's worker, would hold the ends of pipes for which this one waits."""
    done = []
    popen = subprocess.Popen
    begun = threading.Event()
    go_on = threading.Event()

    def slow(*arguments, **options):
        begun.set()
        go_on.wait(0.5)  # if it is set at once, the fork did not wait
        done.append("started")
        return popen(*arguments, **options)

    def fork():
        begun.wait(60)
        if (child := os.fork()) == 0:
            os._exit(0)
        done.append("forked")
        go_on.set()
        os.waitpid(child, 0)

    monkeypatch.setenv("CXX", str(compiler(tmp_path / "c++")))
    monkeypatch.setattr(subprocess, "Popen", slow)
    forking = threading.Thread(target=fork)
    forking.start()
    if start == "compile process":
        served = service.Service()
        served._turn()
        served._clean_up()
    else:
        identity.cxx()
    forking.join(60)
    assert done[:2] == ["started", "forked"]
