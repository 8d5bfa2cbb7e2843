"""`python recording.py FILE SEED SCRIPT ARG ...`: runs a script, and writes what it computes into FILE.

It is started by its path, since the package imports PyTorch. The script may set variables before it does so.
"""

import runpy
import signal
import sys
from typing import Any

from openhpu.integration.late_imports import after_import


def main(file: str, seed: str, script: str, *arguments: str) -> None:
    """Run the script as `__main__`. An error of the script is recorded and raised."""
    recorder: Any = None

    def start() -> None:
        nonlocal recorder
        from openhpu_port.recorder import Recorder

        recorder = Recorder(file, script, int(seed))

    sys.argv = [script, *arguments]
    sys.path[0] = script.rpartition("/")[0]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("the time is over"))
    after_import("torch", start)
    error = ""
    try:
        runpy.run_path(script, run_name="__main__")
    except BaseException as raised:
        ended = isinstance(raised, SystemExit) and not raised.code
        error = "" if ended else f"{type(raised).__name__}: {raised}"
        raise
    finally:
        if recorder is not None:
            recorder.end(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
