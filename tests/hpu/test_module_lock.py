"""Module locks: a module belongs to one process at a time, a process that chose none takes a free one, and errors name
the holders."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import clean_environment

# Opens a device, says whether there were locks before and which module it got, and holds it until its input is closed.
HOLD = """
import os, sys, torch
locks = torch.hpu.is_available() and os.path.exists(os.environ["XDG_RUNTIME_DIR"] + "/openhpu")
torch.ones(1, device="hpu")
print(locks, torch.hpu.get_device_properties(0).module, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def start(tmp_path):
    """Start a process that holds its module until its input is closed; the process. Keywords are its environment.

    There are locks, in a folder of the test's own.
    """
    started = []

    def hold(**variables):
        environment = clean_environment(tmp_path, OPENHPU_MODULE_LOCKS="1", XDG_RUNTIME_DIR=str(tmp_path), **variables)
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield hold
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def module_of(process):
    """Waits until the process holds its module; the number."""
    _, number = process.stdout.readline().split()
    return int(number)


def open_files(process):
    """Names of the files that it has open."""
    for file in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            yield os.readlink(file)


def end(process):
    """Lets it end by itself."""
    _, error = process.communicate("\n", timeout=300)
    assert process.returncode == 0, error


def refused(process):
    """Waits for the end of one that gets no module; its error."""
    out, error = process.communicate("\n", timeout=300)
    assert (out, process.returncode) == ("", 1)
    return error


def test_processes_that_chose_none_take_the_first_free_module_and_a_choice_is_exclusive(start):
    first = start()
    assert first.stdout.readline().split() == ["False", "0"]  # to import it takes no module
    second = start(HABANA_VISIBLE_MODULES="1")
    assert module_of(second) == 1
    third = start()
    assert module_of(third) == 2
    strict = {"LOCAL_RANK": "0", "OPENHPU_STRICT": "gaudi"}
    for choice in ({"HABANA_VISIBLE_MODULES": "0,1"}, {"HLS_MODULE_ID": "0"}, strict):
        error = refused(start(**choice, OPENHPU_MODULE_WAIT_S="0"))
        assert f"HPU module 0 is in use by process {first.pid} ({sys.executable} -c" in error
        assert "End that process, or choose another module with HABANA_VISIBLE_MODULES." in error
    end(first)
    fourth = start()
    assert module_of(fourth) == 0
    for process in (second, third, fourth):
        end(process)


def test_where_all_are_taken_the_error_names_the_holders_and_who_is_stopped(start):
    first, second = start(OPENHPU_DEVICE_COUNT="2"), start(OPENHPU_DEVICE_COUNT="2")
    pids = {module_of(process): process.pid for process in (first, second)}
    assert set(pids) == {0, 1}
    first.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
    error = refused(start(OPENHPU_DEVICE_COUNT="2", OPENHPU_MODULE_WAIT_S="0.01"))
    assert "All 2 HPU modules are in use, and none became free within 0.01 s (OPENHPU_MODULE_WAIT_S):" in error
    for module, pid in pids.items():
        (line,) = [line for line in error.splitlines() if line.startswith(f"  module {module}: process {pid} (")]
        assert (f"which is stopped (`kill -CONT {pid}` lets it go on)" in line) == (pid == first.pid)
    assert "End one of these processes, or allow more modules with OPENHPU_DEVICE_COUNT." in error
    fourth = start()  # of eight, there are others
    assert module_of(fourth) == 2
    first.send_signal(signal.SIGCONT)
    for process in (first, second, fourth):
        end(process)


def test_an_interrupt_ends_the_wait_for_a_module(start):
    first = start(HABANA_VISIBLE_MODULES="5")
    assert module_of(first) == 5
    second = start(HABANA_VISIBLE_MODULES="5", OPENHPU_MODULE_WAIT_S="3000")
    while not any(name.endswith("module5.lock") for name in open_files(second)):
        time.sleep(0.01)
    second.send_signal(signal.SIGINT)
    out, error = second.communicate(timeout=300)
    assert out == ""
    assert error.strip().endswith("KeyboardInterrupt")
    end(first)


def test_the_ranks_of_two_jobs_take_free_modules_without_any_setting(start):
    """As torchrun and DeepSpeed's launcher start them, beside a program that holds a module."""
    other = start(HABANA_VISIBLE_MODULES="1")
    assert module_of(other) == 1
    torchrun = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    deepspeed = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29600", "WORLD_SIZE": "2", "LOCAL_SIZE": "2"}
    last = start(**torchrun, RANK="1", LOCAL_RANK="1")
    assert module_of(last) == 2
    ranks = [start(**job, RANK="0", LOCAL_RANK="0") for job in (deepspeed, torchrun)]
    assert [module_of(rank) for rank in ranks] == [3, 0]
    for process in (other, last, *ranks):
        end(process)
