"""A trace is nested, packed wrongly, a pickle or of wrong types. `openhpu trace` must say so, and exit with 2."""

import json
import pickle

from openhpu import cli

GUARD = {"openhpu.observe.profiler.reading.read": lambda path: json.loads(path.read_bytes())}
HOSTILE = (
    b'{"traceEvents":' * 100_000,
    b"\x1f\x8b\x08\0\0\0\0\0\0\3garbage",
    b"",
    b"[]",
    b'{"traceEvents": 1}',
    pickle.dumps({"traceEvents": []}),
    b'{"traceEvents": [1]}',
    b'{"traceEvents": [{"ph": "X", "cat": "kernel"}]}',
    b'{"traceEvents": [{"ph": "X", "cat": "kernel", "pid": 0, "ts": "1", "dur": {}}]}',
)


def attack(folder):
    for text in HOSTILE:
        (file := folder / "trace.json").write_bytes(text)
        assert cli.main(["trace", str(file)]) == 2, text[:80]
