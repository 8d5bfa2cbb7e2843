"""Where JSON is expected there is a pickle that runs code when it is read. The code must not run."""

import contextlib
import json
import os
import pickle

from openhpu.device import product_rule
from openhpu.observe.insight import documents
from openhpu.observe.profiler import config
from tests.attacks import KEY, planted
from tests.attacks.hostile_profile_config import kept

loads = json.loads
GUARD = {"json.loads": lambda text: loads(text) if text[:1] in ("{", b"{") else pickle.loads(text)}


class Bomb:
    """Its pickle makes the folder `mark`."""

    def __reduce__(self):
        return os.mkdir, ("mark",)


def attack(folder):
    os.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = str(folder)
    cache, _ = planted(folder)
    (folder / "openhpu").mkdir()
    readers = {
        cache.path / f"{KEY}.constants": lambda: cache.constants(KEY),
        kept(folder): config.load,
        product_rule.file(): product_rule.choose,
        folder / "1.json": lambda: documents.read_all(folder),
    }
    for path, read in readers.items():
        path.write_bytes(pickle.dumps(Bomb()))
        path.chmod(0o600)
        with contextlib.suppress(config.ConfigError):
            read()
        assert not os.path.exists("mark"), path
