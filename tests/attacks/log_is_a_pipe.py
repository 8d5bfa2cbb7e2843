"""In the folder HABANA_LOGS the log is a pipe that nobody reads, or one that somebody reads. No line must wait."""

import os
import signal

from openhpu.observe.logs import LogFile

GUARD = {"os.O_NONBLOCK": 0}


def attack(folder):
    os.environ["HABANA_LOGS"] = str(folder)
    os.mkfifo(pipe := folder / "pytorch_log.txt")
    signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    LogFile("pytorch_log.txt").write("x\n")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    LogFile("pytorch_log.txt").write("x\n" * 100_000)
    os.close(reader)
    signal.alarm(0)


def late(*_):
    raise RuntimeError("a line waits")
