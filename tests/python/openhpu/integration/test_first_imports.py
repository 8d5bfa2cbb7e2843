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
