"""Another process connects to the compile process, which reads pickles. There must be no address to connect to."""

import os
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


def attack(folder):
    service = Service()
    service.ahead()
    while service._connection is None:
        time.sleep(0.01)
    inode = os.fstat(service._connection.fileno()).st_ino
    (row,) = (line for line in Path("/proc/net/unix").read_text().splitlines() if f" {inode}" in line)
    peers = Path("/proc/net/unix").read_text().count("@openhpu-attack")
    service.close()
    assert len(row.split()) == 7
    assert not peers
