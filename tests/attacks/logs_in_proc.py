"""HABANA_LOGS is a folder of /proc, a folder below a file, or one that a link in a circle names. A line must cost a
message, not an error."""

import os

from openhpu.observe.logs import LogFile
from tests.attacks import precious


def raise_it(what, error, remedy=""):
    raise error


GUARD = {"openhpu.settings.folders.tell": raise_it}


def attack(folder):
    (folder / "circle").symlink_to(folder / "circle")
    for hostile in ("/proc/1/logs", "/proc/self/fd", precious(folder) / "logs", folder / "circle"):
        os.environ["HABANA_LOGS"] = str(hostile)
        LogFile("pytorch_log.txt").write("x\n")
