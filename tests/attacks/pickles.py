"""Where JSON is expected there is a pickle that runs code when it is read. The code must not run."""

import contextlib
import json
import os
import pickle

from openhpu.device import product_rule
from openhpu.observe.insight import observed
from openhpu.observe.profiler import config, reading
from tests.attacks import KEY, planted
from tests.attacks.hostile_profile_config import kept

loads = json.loads


def unpickled(text):
    data = text if isinstance(text, bytes) else text.encode()
    return loads(data) if data.startswith(b"{") else pickle.loads(data)


GUARD = {"json.loads": unpickled}


class Bomb:
    """Its pickle makes a file."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def attack(folder):
    os.environ["XDG_CACHE_HOME"] = str(folder)
    cache, recipe = planted(folder)
    (folder / "openhpu").mkdir()
    (folder / "report").mkdir()
    readers = {
        recipe / "manifest.json": lambda: cache.find(KEY),
        cache.path / f"{KEY}.constants": lambda: cache.constants(KEY),
        kept(folder): config.load,
        product_rule.file(): product_rule.choose,
        folder / "trace.json": lambda: reading.read(folder / "trace.json"),
        folder / "report" / "1.json": lambda: observed.read_all(folder / "report"),
    }
    for path, read in readers.items():
        path.write_bytes(pickle.dumps(Bomb(mark := str(folder / "mark")), 0))
        path.chmod(0o600)
        with contextlib.suppress(config.ConfigError, reading.TraceError, AttributeError):
            read()
        assert not os.path.exists(mark), path
