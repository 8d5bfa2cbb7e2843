"""In the folder HABANA_LOGS the log is a symbolic link to a file of the user's. That file must stay as it is."""

import os

from openhpu.observe.logs import LogFile
from tests.attacks import precious

GUARD = {"os.O_NOFOLLOW": 0}


def attack(folder):
    os.environ["HABANA_LOGS"] = str(folder)
    (folder / "pytorch_log.txt").symlink_to(file := precious(folder))
    LogFile("pytorch_log.txt").write("planted\n")
    assert file.read_text() == "mine"
