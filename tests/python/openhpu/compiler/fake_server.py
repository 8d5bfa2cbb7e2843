"""A compile process that misbehaves with its first job, as FAKE says, and answers the next: see test_service_faults.

It imports nothing of the project, so that it starts at once.
"""

import os
import pickle
import signal
import socket
import struct
import sys
import time
from pathlib import Path


def framed(message):
    return struct.pack("!Q", len(message)) + message


def exactly(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def misbehave(fault, connection, work):
    if fault == "exit":
        print("out of ideas", file=sys.stderr, flush=True)
        os._exit(7)
    if fault == "hang":
        time.sleep(3600)
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault == "half":
        connection.sendall(framed(b"x" * 100)[:50])
        time.sleep(3600)
    if fault == "endless":
        connection.sendall(struct.pack("!Q", 2**62))
    if fault == "no pickle":
        connection.sendall(framed(b"nonsense"))
    if fault == "too few":
        connection.sendall(framed(pickle.dumps((1, 2))))
    if fault == "wrong types":
        connection.sendall(framed(pickle.dumps(("manifest", "folder", 3, []))))
    if fault == "wrong notes":
        connection.sendall(framed(pickle.dumps((None, None, "error", [1]))))
    if fault == "twice":
        connection.sendall(2 * framed(pickle.dumps((None, None, "error", []))))
    if fault == "no library":
        connection.sendall(framed(pickle.dumps((pickle.loads(MANIFEST.read_bytes()), work, "", []))))
    if fault == "misfit":
        (work / "recipe.so").write_text("")
        connection.sendall(framed(pickle.dumps((pickle.loads(MANIFEST.read_bytes()), work, "", []))))
    time.sleep(3600)


MANIFEST = Path(os.environ.get("FAKE_MANIFEST", ""))


def main():
    connection, work = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    done = Path(os.environ["FAKE_DONE"])
    connection.sendall(framed(b""))
    if os.environ["FAKE"] == "deaf" and not done.exists():  # it never takes its job
        done.touch()
        time.sleep(3600)
    while True:
        (size,) = struct.unpack("!Q", exactly(connection, 8))
        exactly(connection, size)
        if not done.exists():
            done.touch()
            misbehave(os.environ["FAKE"], connection, work)
        connection.sendall(framed(pickle.dumps((None, None, "as it should", ["a note"]))))


if __name__ == "__main__":
    main()
