"""In the folder HABANA_LOGS the log is a symbolic link to a file of the user's. That file must stay as it is."""

import os

from openhpu.observe.logs import LogFile

GUARD = {"os.O_NOFOLLOW": 0}


def attack(folder):
    os.environ["HABANA_LOGS"] = str(folder)
    (precious := folder / "precious").write_text("mine")
    (folder / "pytorch_log.txt").symlink_to(precious)
    LogFile("pytorch_log.txt").write("planted")
    assert precious.read_text() == "mine"
