"""`python -m tests.attacks NAME [without]`: run an attack, or the attack without its guard, which must succeed."""

import contextlib
import importlib
import os
import sys
import tempfile
from pathlib import Path
from unittest import mock


def main(name: str, without: str = "") -> None:
    os.environ["OPENHPU_MODULE_LOCKS"] = "0"
    import habana_frameworks.torch  # noqa: F401

    module = importlib.import_module(f"tests.attacks.{name}")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for path, open_gate in module.GUARD.items() if without else ():
            stack.enter_context(mock.patch(path, open_gate))
        try:
            module.attack(Path(folder))
        except Exception as error:
            print(f"succeeded: {error!r}")
        else:
            print("refused")


if __name__ == "__main__":
    main(*sys.argv[1:])
