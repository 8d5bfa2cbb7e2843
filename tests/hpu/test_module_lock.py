"""Module locks: a module belongs to one process at a time, and the error names the holder."""

import os
import subprocess
import sys

HOLD = """
import sys, torch
torch.ones(1, device="hpu")
print("held", flush=True)
sys.stdin.readline()
"""


def locking(tmp_path, **more):
    """An environment with locks, and a folder of its own for them."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OPENHPU_", "HABANA_", "HLS_"))}
    return {**clean, "OPENHPU_MODULE_LOCKS": "1", "XDG_RUNTIME_DIR": str(tmp_path), **more}


def start(environment):
    """A process that holds its module until its input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    return process


def test_a_second_process_is_told_who_holds_the_module(tmp_path):
    first = start(locking(tmp_path))
    try:
        assert first.stdout.readline() == "held\n"
        second = start(locking(tmp_path))
        _, error = second.communicate("\n", timeout=120)
        assert second.returncode != 0
        assert str(first.pid) in error
        assert "HABANA_VISIBLE_MODULES" in error
        other = start(locking(tmp_path, HABANA_VISIBLE_MODULES="1"))
        out, error = other.communicate("\n", timeout=120)
        assert (out, other.returncode) == ("held\n", 0), error
    finally:
        first.communicate("\n", timeout=120)
    third = start(locking(tmp_path))
    out, error = third.communicate("\n", timeout=120)
    assert (out, third.returncode) == ("held\n", 0), error


def test_a_killed_process_gives_its_module_back(tmp_path):
    first = start(locking(tmp_path))
    assert first.stdout.readline() == "held\n"
    first.kill()
    first.communicate()
    second = start(locking(tmp_path))
    out, error = second.communicate("\n", timeout=120)
    assert (out, second.returncode) == ("held\n", 0), error


def test_importing_takes_no_module(tmp_path):
    first = start(locking(tmp_path))
    try:
        assert first.stdout.readline() == "held\n"
        code = "import torch; print(torch.hpu.device_count(), torch.hpu.is_available())"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=locking(tmp_path),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout == "1 True\n", done.stderr
    finally:
        first.communicate("\n", timeout=120)
