"""Fixtures of the device's tests, which run in each mode: see tests/run.py.

test_lazy_*.py exist in lazy mode only, test_compiled_*.py only where graphs are compiled: in lazy mode, and of eager
mode test_compiled_eagerly_*.py.
"""

import gc
import os
import threading
from textwrap import dedent

import pytest
import torch

from commands import ROOT
from openhpu import _C
from tests.hpu import called_rows as called_rows, support
from tests.processes import clean_environment, run_code

# What scripts need not say.
IMPORTS = """
import contextlib, copy, faulthandler, gc, itertools, os, random, re, signal, sys, threading, time, warnings
from pathlib import Path
import pytest, torch, openhpu
import habana_frameworks.torch.core as htcore
from openhpu import _C
from tests.hpu.support import capture, counted, make, train_step
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
    """Each test starts with an open, idle device without a pending error and the same random numbers, and must leave it
    idle. A device that a test opens itself would take its settings from the environment then."""
    torch.hpu.init()
    torch.manual_seed(0)
    torch.hpu.synchronize()
    yield
    torch.hpu.synchronize()  # an error that a test left behind belongs to that test


@pytest.fixture
def usable():
    """The device still computes after the test, and nothing is being captured."""
    yield
    assert not torch.hpu.is_current_stream_capturing()
    assert torch.hpu.current_device() == 0
    assert (torch.ones(3, device="hpu") + 1).tolist() == [2.0] * 3


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
    before = support.memory_in_use()
    yield
    assert support.memory_in_use() == before


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
    """support.counted."""
    return support.counted


@pytest.fixture
def no_fallback(counted):
    """No operator of the test is a fallback."""
    with counted(ops_fallback=0):
        yield


@pytest.fixture
def one_graph(counted):
    """`one_graph(function, *arguments)`: the results of a call that was recorded as one graph and is flushed now.

    The function is called once before, with the same arguments, so that every operator's metadata is known; it must not
    change them in a way that another call would see.
    """

    def run(function, *arguments):
        function(*arguments)
        torch.hpu.synchronize()
        with counted(graphs_flushed=0, ops_waited=0, ops_submitted=0) as recorded:
            result = function(*arguments)
        assert recorded["ops_recorded"] > 0
        with counted(graphs_flushed=1, graphs_cut=0) as flushed:
            torch.hpu.synchronize()
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
        variables["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
        whole = code if bare else IMPORTS + dedent(code)
        return run_code(whole, tmp_path, variables, warnings, fails, timeout, fresh)

    return run
