"""What hangs, each in another way, and tests that pass beside it: `tests/python/tests/test_hangs.py` runs them.

`python -m tests.run --only planted` runs them by hand. No other run has them.
"""

import os
import subprocess
import sys
import time

import pytest

from tests.processes import clean_environment

_STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(1000)"


def test_before():
    pass


def test_a_child_that_ignores_sigterm():
    child = subprocess.Popen([sys.executable, "-c", _STUBBORN], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"1\n"
    child.terminate()
    child.wait()


def test_a_child_that_closes_its_output():
    code = "import os, time; os.close(1); time.sleep(1000)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout.read() == b""
    child.wait()


def test_a_grandchild_that_holds_the_pipe():
    code = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_a_compile_process_that_never_answers(tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\nexec sleep 1000\n")
    compiler.chmod(0o755)
    code = "import torch\nx = torch.ones(4, device='hpu')\nfor _ in range(5): print((x * 2 + 1).sum().item())"
    variables = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "CXX": str(compiler)}
    environment = clean_environment(tmp_path, **variables, PT_HPU_RECIPE_CACHE_CONFIG="")
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_a_crash():
    os.kill(os.getpid(), 11)


def test_a_failure():
    assert "one" == "two"


@pytest.mark.skip(reason="planted")
def test_skipped():
    pass


def test_after():
    time.sleep(0.01)
