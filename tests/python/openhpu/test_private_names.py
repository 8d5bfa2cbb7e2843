"""Torch's private names that the project uses: which, where, and what they take."""

import json
import os
import subprocess
import sys

from tests.python.openhpu import private_names


def test_the_table_names_what_is_used():
    assert {name: row.number for name, row in private_names.table().items()} == dict(private_names.used())


def test_pytorch_has_them_as_they_were():
    """Where this fails for a new PyTorch: see what has changed, mend its uses, and write the table anew."""
    release = private_names.installed()
    told = subprocess.run(
        [sys.executable, "-m", private_names.__name__, "--parameters"],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        cwd=private_names.ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(told.stdout) == {name: row.of(release) for name, row in private_names.table().items()}
