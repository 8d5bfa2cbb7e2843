"""Torch's private names that the project uses: which, where, and what they take."""

import json
import os

from tests.processes import run_python
from tests.python.openhpu import private_names


def test_the_table_names_what_is_used():
    assert {name: row.number for name, row in private_names.table().items()} == dict(private_names.used())


def test_pytorch_has_them_as_they_were():
    """Where this fails for a new PyTorch: see what has changed, mend its uses, and write the table anew."""
    release = private_names.installed()
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    told = run_python(["-m", private_names.__name__, "--parameters"], private_names.ROOT, environment)
    assert json.loads(told.out) == {name: row.of(release) for name, row in private_names.table().items()}
