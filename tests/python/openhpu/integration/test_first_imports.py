"""The device is there whichever module a program imports first."""

import sys

import pytest

from commands import child
from tests.processes import clean_environment

CODE = "import {}, torch; print((torch.ones(2, device='hpu') + 1).tolist())"


@pytest.mark.parametrize("name", ["openhpu.hpu", "openhpu.interface.custom_ops"])
def test_the_device_is_there(tmp_path, name):
    ended = child.run(
        [sys.executable, "-c", CODE.format(name)], seconds=100, env=clean_environment(tmp_path), split=True
    )
    assert ended.output.strip() == "[2.0, 2.0]", ended.errors


THREADS = """
import importlib
import sys
import threading
import time

def first():
    import torch
    done.append(torch.hpu.device_count() > 0 and (torch.ones(2, device="hpu") + 1).tolist())

def second():
    while "torch" not in sys.modules:
        time.sleep(0.001)
    importlib.import_module("openhpu.interface.custom_ops")
    import torch
    done.append((torch.ones(2, device="hpu") + 1).tolist())

done = []
threads = [threading.Thread(target=one) for one in (first, second)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(done)
"""


def test_two_threads(tmp_path):
    """One imports PyTorch, which loads the device at its end; the other meanwhile a module that the device needs."""
    ended = child.run([sys.executable, "-c", THREADS], seconds=100, env=clean_environment(tmp_path), split=True)
    assert ended.output.strip() == "[[2.0, 2.0], [2.0, 2.0]]", ended.errors
    assert ended.errors == ""
