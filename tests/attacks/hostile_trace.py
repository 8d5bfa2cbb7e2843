"""A trace is nested, packed wrongly, a pickle or of wrong types. `openhpu trace` must say so, and exit with 2."""

import json
import pickle

from openhpu import cli

GUARD = {"openhpu.observe.profiler.reading.read": lambda path: json.loads(path.read_bytes())}
EVENTS = (
    "1", "[]", '{"ph": "X", "cat": "kernel"}', '{"ph": "X", "cat": "kernel", "pid": 0, "ts": "1", "dur": {}}',
    '{"ph": "X", "cat": [], "ts": 1, "dur": 1}',
)  # fmt: skip
HOSTILE = (
    b'{"traceEvents":' * 100_000, b"\x1f\x8bgarbage", b"\x1f\x8b\x08\0\0\0\0\0\0\3garbage", b"", b"[]", b"\xff",
    b'{"traceEvents": 1}', pickle.dumps({"traceEvents": []}), *(f'{{"traceEvents": [{e}]}}'.encode() for e in EVENTS),
)  # fmt: skip


def attack(folder):
    (folder / "good.json").write_text('{"traceEvents": []}')
    for text in HOSTILE:
        (file := folder / "trace.json").write_bytes(text)
        assert cli.main(["trace", str(file)]) == 2, text[:80]
    file.write_text('{"baseTimeNanoseconds": {}, "distributedInfo": 1, "traceEvents": []}')
    merge = ["trace", "merge", str(folder / "good.json"), str(file), "-o", str(folder / "merged.json")]
    assert cli.main(merge) == 2 and not (folder / "merged.json").exists()
