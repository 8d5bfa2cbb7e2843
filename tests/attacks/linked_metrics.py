"""Between two writes the file of metrics becomes a symbolic link to a file of the user's. That file must stay."""

import contextlib

from openhpu.observe.metrics import dump
from tests.attacks import precious

GUARD = {"os.O_NOFOLLOW": 0}


def attack(folder):
    path = folder / "metrics.json"
    file = dump._MetricFile(lambda: path, dump.MetricDumpFormat.json)
    file.write([], dump.MetricDumpTrigger.user)
    path.unlink()
    path.symlink_to(kept := precious(folder))
    with contextlib.suppress(OSError):
        file.write([], dump.MetricDumpTrigger.user)
    assert kept.read_text() == "mine"
