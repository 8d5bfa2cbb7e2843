import os
from pathlib import Path

import pytest

import openhpu


@pytest.fixture
def environment_of_smi(tmp_path):
    """Of a process that shows itself in, or reads, a folder of this test alone."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OPENHPU_", "HABANA_", "PT_"))}
    return clean | {
        "PYTHONPATH": str(Path(openhpu.__file__).parents[1]),
        "OPENHPU_SMI_FOLDER": str(tmp_path),
        "OPENHPU_MODULE_LOCKS": "0",
    }
