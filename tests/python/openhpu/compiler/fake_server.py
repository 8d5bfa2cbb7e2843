"""A compile process that misbehaves with its first job, as FAKE says, and answers the next: see test_service_faults.

It imports nothing of the project, so that it starts at once.
"""

import os
import pickle
import signal
import struct
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

MANIFEST = Path(os.environ.get("FAKE_MANIFEST", ""))
ANSWERS = {
    "no pickle": b"nonsense",
    "too few": pickle.dumps((1, 2)),
    "wrong types": pickle.dumps(("manifest", "folder", 3, [])),
    "wrong notes": pickle.dumps((None, None, "error", [1])),
}


def misbehave(fault, connection, work):
    if fault == "exit":
        print("out of ideas", file=sys.stderr, flush=True)
        os._exit(7)
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault == "half":
        os.write(connection.fileno(), struct.pack("!i", 100) + b"x" * 50)
    if fault == "endless":
        os.write(connection.fileno(), struct.pack("!iQ", -1, 2**62))
    if fault in ANSWERS:
        connection.send_bytes(ANSWERS[fault])
    if fault == "twice":
        answer = pickle.dumps((None, None, "error", []))
        os.write(connection.fileno(), 2 * (struct.pack("!i", len(answer)) + answer))
    if fault == "misfit":
        (work / "recipe.so").write_text("")
    if fault in ("no library", "misfit"):
        connection.send_bytes(pickle.dumps((pickle.loads(MANIFEST.read_bytes()), work, "", [])))
    time.sleep(3600)  # which is all of "hang"


def main():
    connection = Connection(int(sys.argv[1]))
    work = Path(sys.argv[2])
    done = Path(os.environ["FAKE_DONE"])
    connection.send_bytes(b"")
    if os.environ["FAKE"] == "deaf" and not done.exists():  # it never takes its job
        done.touch()
        time.sleep(3600)
    while True:
        connection.recv_bytes()
        if not done.exists():
            done.touch()
            misbehave(os.environ["FAKE"], connection, work)
        connection.send_bytes(pickle.dumps((None, None, "as it should", ["a note"])))


if __name__ == "__main__":
    main()
