"""Settings of every Python test: its time; no module locks, so that processes run side by side; headers; Ctrl-C."""

import gc
import os
import signal

import pytest

from tests.processes import HEADERS

os.environ.setdefault("OPENHPU_MODULE_LOCKS", "0")
os.environ.setdefault("OPENHPU_HEADER_CACHE", HEADERS)
# A shell's background jobs ignore it, and what they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def little_to_collect():
    """What earlier files left, above all torch.compile's modules and caches, is not looked at in each collection: tests
    that count memory collect garbage, and took seconds for it."""
    gc.collect()
    gc.freeze()
