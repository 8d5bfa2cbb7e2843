"""`python -m openhpu_record.worker OPTIONS SCRIPT ARG ...`: runs a script as `__main__`, and records it.

PyTorch is not imported before the script does so: the script may set variables that a device reads at its import.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openhpu_record import children
from openhpu_record.errors import RecordError


class _After(importlib.abc.MetaPathFinder):
    """Calls a function after the first import of a package."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def executed(module: Any) -> None:
                execute(module)
                self._then()

            loader.exec_module = executed
        return spec


def main(options: str, script: str, *arguments: str) -> None:
    """Run the script. Its errors and exit codes are its own."""
    children.end_with_parent()
    asked = json.loads(options)
    recorder: Any = None

    def start() -> None:
        nonlocal recorder
        from openhpu_record.recorder import Options, Recorder
        from openhpu_record.writing import Writer

        folder = Path(asked.pop("folder"))
        try:
            writer = Writer(folder, asked.pop("most_bytes"))
        except RecordError as error:
            print(f"gaudi-record: {error}; the script runs without it", file=sys.stderr)
            return
        recorder = Recorder(writer, Options(**asked), str(Path(script).resolve().parent))
        recorder.start()

    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    sys.meta_path.insert(0, _After("torch", start))
    error = ""
    try:
        runpy.run_path(script, run_name="__main__")
    except BaseException as raised:
        ended = isinstance(raised, SystemExit) and not raised.code
        error = "" if ended else type(raised).__name__
        raise
    finally:
        if recorder is not None:
            recorder.end(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
