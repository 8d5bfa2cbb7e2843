"""The calibration of products is nested deeply, or a pipe. It must be passed over."""

import json
import os

from openhpu.device import product_rule

GUARD = {"openhpu.settings.folders.read_object": lambda path: json.loads(path.read_text())}


def attack(folder):
    os.environ["XDG_CACHE_HOME"] = str(folder)
    product_rule.file().parent.mkdir()
    product_rule.file().write_text('{"a":' * 100_000)
    product_rule.choose()
    product_rule.file().unlink()
    os.mkfifo(product_rule.file())
    product_rule.choose()
