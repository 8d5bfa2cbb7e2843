"""Another process connects to the compile process, which reads pickles. There must be no address to connect to."""

import contextlib
import os
import re
import socket
import time
from pathlib import Path

from openhpu.compiler.client.service import Service


def pair_with_an_address():
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0openhpu-attack-{time.monotonic_ns()}")
        listener.listen()
        (ours := socket.socket(socket.AF_UNIX)).connect(listener.getsockname())
        return ours, listener.accept()[0]


GUARD = {"socket.socketpair": pair_with_an_address}


def sockets(process):
    for file in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if found := re.match(r"socket:\[(\d+)", os.readlink(file)):
                yield found[1]


def attack(folder):
    service = Service(work=folder)
    service.ahead()
    while service._connection is None:
        time.sleep(0.01)
    theirs = {*sockets(service._process.pid)}
    named = {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines()[1:] if len(line.split()) > 7}
    service.close()
    assert theirs and not theirs & named
