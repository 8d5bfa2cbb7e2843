"""Fixtures of the device's tests, which run in each mode: see tests/run.py.

test_lazy_*.py exist in lazy mode only, test_compiled_*.py only where graphs are compiled: in lazy mode, and of eager
mode test_compiled_eagerly_*.py.
"""

import gc
import os
import threading
from contextlib import contextmanager
from textwrap import dedent

import pytest
import torch

import openhpu
from openhpu import _C
from tests.hpu.support import memory_in_use
from tests.processes import clean_environment, run_code

# What scripts need not say.
IMPORTS = """
import os, sys, threading, time, warnings
import torch, openhpu
from openhpu import _C
from torch import nn
"""

# Captured graphs run operator by operator in this process, exactly as eager mode; recipes have processes of their own.
os.environ.setdefault("OPENHPU_COMPILE", "off")

MODE = {name: os.environ[name] for name in ("PT_HPU_LAZY_MODE", "OPENHPU_COMPILE") if name in os.environ}
LAZY = MODE.get("PT_HPU_LAZY_MODE") == "1"
COMPILING = MODE.get("OPENHPU_COMPILE") != "off"

# Modules are locked when a device is opened, whatever runs on it.
collect_ignore_glob = ["test_module_lock.py"] if LAZY else ["test_lazy_*.py"]
if not COMPILING or not LAZY:
    collect_ignore_glob.append("test_compiled_[!e]*.py")
if not COMPILING or LAZY:
    collect_ignore_glob.append("test_compiled_eagerly_*.py")


@pytest.fixture(autouse=True)
def clean_device():
    """Each test starts with an idle device without a pending error and the same random numbers, and must leave it
    idle."""
    torch.manual_seed(0)
    torch.hpu.synchronize()
    yield
    torch.hpu.synchronize()  # an error that a test left behind belongs to that test


@pytest.fixture
def strict_indices():
    """An index out of range is an error, as on the CPU device (OPENHPU_OUT_OF_RANGE=error)."""
    _C.set_lenient_indices(False)
    yield
    _C.set_lenient_indices(True)


@pytest.fixture
def narrow():
    """int64 as on a Gaudi (OPENHPU_INT64=gaudi)."""
    _C.set_narrow_int64(True)
    yield
    torch.hpu.synchronize()
    _C.set_narrow_int64(False)


@pytest.fixture
def compiled_graphs():
    """The graphs that torch.compile makes in this test, in order. Nothing is compiled at its start, nor after it."""
    import torch._dynamo

    from openhpu.capture import torch_compile

    torch._dynamo.reset()
    with torch_compile.FxGraphAnalyzer() as analyzer:
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
    """`with counted() as difference:` fills a dict with how far each counter moved inside.

    `ops_issued` is the sum that holds in both modes: operators for which the host did not wait.
    """

    @contextmanager
    def measure():
        difference = {}
        before = openhpu.counters()
        yield difference
        difference.update({name: value - before[name] for name, value in openhpu.counters().items()})
        difference["ops_issued"] = difference["ops_submitted"] + difference["ops_recorded"]

    return measure


@pytest.fixture
def one_graph(counted):
    """`one_graph(function, *arguments)`: the results of a call that was recorded as one graph and is flushed now.

    The function is called once before, with the same arguments, so that every operator's metadata is known; it must not
    change them in a way that another call would see.
    """

    def run(function, *arguments):
        function(*arguments)
        torch.hpu.synchronize()
        with counted() as recorded:
            result = function(*arguments)
        assert recorded["ops_recorded"] > 0
        assert recorded["graphs_flushed"] == recorded["ops_waited"] == recorded["ops_submitted"] == 0
        with counted() as flushed:
            torch.hpu.synchronize()
        assert flushed["graphs_flushed"] == 1 and flushed["graphs_cut"] == 0
        assert flushed["ops_in_recipes"] + flushed["ops_node_by_node"] == recorded["ops_recorded"]
        return result

    return run


@pytest.fixture
def script(tmp_path):
    """Run Python code in a process of its own, with warnings as errors and in the mode of the suite; its Result.

    It follows IMPORTS, unless it is `bare`. Keywords are environment variables. `fresh`: as of `run_code`.
    """

    def run(code, *, bare=False, fails=False, warnings="error", timeout=300, fresh=False, **environment):
        variables = clean_environment(tmp_path, **MODE | environment)
        whole = code if bare else IMPORTS + dedent(code)
        return run_code(whole, tmp_path, variables, warnings, fails, timeout, fresh)

    return run
