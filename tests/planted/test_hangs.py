"""A test that hangs, and one that passes: `tests/python/tests/test_run.py` runs them. No other run has them."""

import os
import time
from pathlib import Path


def test_before():
    pass


def test_a_hang():
    (Path(os.environ["COMMANDS_BUILD"]) / "hangs").touch()
    time.sleep(1000)
