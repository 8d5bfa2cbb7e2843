"""hl-prof-config's file is huge, nested, of wrong types, a pickle or a pipe. It must be an error that says so."""

import json
import os
import pickle

from openhpu.observe.profiler import config

GUARD = {"openhpu.settings.folders.read_object": lambda path: json.loads(path.read_bytes())}
HOSTILE = (
    b'{"session": "' + b"x" * (2 << 20) + b'"}',
    b'{"a":' * 100_000,
    b"[]",
    b"null",
    b"1e999",
    b'{"first": "1"}',
    b'{"first": true}',
    b'{"last": 1.5}',
    b'{"output": 5}',
    b'{"session": []}',
    b'{"phase": {}}',
    b'{"unknown": 1}',
    b'{"first": ' + b"9" * 5000 + b"}",
    b"\xff\xfe",
    b"",
    pickle.dumps({"session": "x"}),
)


def kept(folder):
    """The path of the file, which is in force."""
    os.environ["HABANA_PROF_CONFIG"] = str(folder / "prof.json")
    return folder / "prof.json"


def error():
    """What reading the file raises; nothing if it is taken."""
    try:
        config.load()
    except config.ConfigError as found:
        return str(found)
    return ""


def attack(folder):
    for text in HOSTILE:
        kept(folder).write_bytes(text)
        assert "prof.json" in error(), text[:80]
    kept(folder).unlink()
    os.mkfifo(kept(folder))
    assert "not a regular file" in error()
