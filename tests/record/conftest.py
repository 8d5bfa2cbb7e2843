"""Fixtures of the tests of recordings."""

import pytest

from openhpu_record import outcomes
from tests.processes import clean_environment, run_code


@pytest.fixture
def script(tmp_path):
    """Runs code in a process of its own, in an empty folder; variables as keywords."""

    def run(code, **variables):
        return run_code(code, tmp_path, clean_environment(tmp_path, **variables), "default", False)

    return run


@pytest.fixture
def outcome():
    """What came of a call on the CPU, which a test changes."""
    return lambda call: outcomes.run(call, "cpu")()
