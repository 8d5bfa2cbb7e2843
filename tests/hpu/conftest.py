"""Fixtures of the device's tests."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import openhpu
from openhpu import _C
from tests.hpu.support import memory_in_use

# Captured graphs run operator by operator in this process, exactly as eager mode; recipes have processes of their own.
os.environ.setdefault("OPENHPU_COMPILE", "off")

# Variables that would change what a script does; each test names the ones that it is about.
_OURS = ("PT_", "OPENHPU_", "HABANA_", "HLS_", "LOG_LEVEL_", "LOCAL_", "RANK", "ENABLE_CONSOLE", "TORCH_DEVICE")


@pytest.fixture(autouse=True)
def clean_device():
    """Each test starts with an idle device without a pending error, and must leave it so."""
    torch.hpu.synchronize()
    yield
    torch.hpu.synchronize()  # an error that a test left behind belongs to that test


@pytest.fixture
def compiled_graphs():
    """The graphs that torch.compile makes in this test, in order. Nothing is compiled at its start, nor after it."""
    import torch._dynamo

    from openhpu import dynamo

    torch._dynamo.reset()
    with dynamo.FxGraphAnalyzer() as analyzer:
        yield analyzer._graphs
    analyzer._graphs.clear()
    torch._dynamo.reset()


@pytest.fixture
def collected():
    """No garbage of earlier tests is freed in the middle of this one."""
    gc.collect()


@pytest.fixture
def level():
    """Device memory is back at its level when the test's tensors and graphs are gone."""
    before = memory_in_use()
    yield
    assert memory_in_use() == before


class Gate:
    """Holds the device's worker: what is submitted inside `with gate:` stays queued until it ends.

    A host that waits for the device inside would wait for ever, so a watchdog opens the gate after a while, and the
    test fails. That is the only clock: a test that passes never waits for it.
    """

    patience = 10.0

    def __init__(self, index=0):
        self.index = index
        self.waited = False

    def open(self):
        _C.unblock_queue(self.index)

    def _give_up(self):
        self.waited = True
        self.open()

    def __enter__(self):
        self._watchdog = threading.Timer(self.patience, self._give_up)
        self._watchdog.start()
        _C.block_queue(self.index)
        return self

    def __exit__(self, kind, error, trace):
        self._watchdog.cancel()
        self.open()
        self._watchdog.join()
        assert not self.waited, "the host waited for the device"


@pytest.fixture
def gate():
    """`with gate:` keeps everything that is submitted inside from running. Shapes must have been seen before."""
    return Gate()


@pytest.fixture
def counted():
    """`with counted() as difference:` fills a dict with how far each counter moved inside."""

    @contextmanager
    def measure():
        difference = {}
        before = openhpu.counters()
        yield difference
        difference.update({name: value - before[name] for name, value in openhpu.counters().items()})

    return measure


class Result:
    """What a script did."""

    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.strip()
        self.err = process.stderr.strip()

    @property
    def last(self):
        """The last line of stderr: the error of a script that failed."""
        return self.err.splitlines()[-1] if self.err else ""


@pytest.fixture
def script(tmp_path):
    """Run Python code in a process of its own, with warnings as errors. Keywords are environment variables."""

    def run(code, *, fails=False, warnings="error", **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        clean.update(PYTHONPATH=str(Path(openhpu.__file__).parents[1]), OPENHPU_MODULE_LOCKS="0", HOME=str(tmp_path))
        clean.update(environment)
        process = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-W", warnings, "-c", textwrap.dedent(code)],
            env=clean, capture_output=True, text=True, cwd=tmp_path, timeout=240,
        )  # fmt: skip
        assert (process.returncode != 0) == fails, process.stdout + process.stderr
        return Result(process)

    return run
