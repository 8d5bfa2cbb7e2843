"""In the folder HABANA_LOGS the log is a pipe that nobody reads. A line must not wait for a reader."""

import os
import signal

from openhpu.observe.logs import LogFile

GUARD = {"os.O_NONBLOCK": 0}


def attack(folder):
    os.environ["HABANA_LOGS"] = str(folder)
    os.mkfifo(folder / "pytorch_log.txt")
    signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
    signal.alarm(5)
    LogFile("pytorch_log.txt").write("a line")
    signal.alarm(0)
