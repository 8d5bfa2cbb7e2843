"""The log of migration: each CUDA name that a script uses, once for each line that does, and what became of it.

GPU_MIGRATION_LOG_LEVEL: unset or 0: no log. 1: to the console and to a file. 2: to the file. 3: to the file, without
what PyTorch's own code uses. The file is gpu_migration.log in the folder of the other logs (HABANA_LOGS).
"""

import enum
import sys
from pathlib import Path
from typing import TextIO

import torch

from openhpu import settings
from openhpu.integration.migration.cuda_names import ROWS
from openhpu.observe import process_names
from openhpu.observe.logs import LogFile


class Level(enum.IntEnum):
    """The values of GPU_MIGRATION_LOG_LEVEL."""

    OFF = 0
    CONSOLE_AND_FILE = 1
    FILE = 2
    FILE_WITHOUT_PYTORCH = 3


_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).parents[2])
_seen: set[tuple[str, str, int]] = set()
_outputs: list[TextIO | LogFile] = []
level = Level.OFF


def start() -> None:
    """Read the level. A file that cannot be written is told, and the console is left."""
    global level
    level = Level(int(settings.get("GPU_MIGRATION_LOG_LEVEL")))
    if not level or _outputs:
        return
    _outputs.append(LogFile(f"gpu_migration{process_names.suffix()}.log"))
    if level is Level.CONSOLE_AND_FILE:
        _outputs.append(sys.stderr)


def used(name: str) -> None:
    """Log that the script uses the CUDA name `name`; one without a row has no counterpart."""
    file, line = _site()
    if level is Level.FILE_WITHOUT_PYTORCH and file.startswith(_TORCH):
        return
    if (name, file, line) in _seen:
        return
    _seen.add((name, file, line))
    row = ROWS.get(name)
    became = "no counterpart" if row is None else f"{row.how} {row.counterpart}".strip()
    reason = f" ({row.result})" if row is not None and row.result else ""
    for output in _outputs:
        output.write(f"{file}:{line}: {name}: {became}{reason}\n")


def _site() -> tuple[str, int]:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_OURS, "<frozen")):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def made(kind: str) -> None:
    """Log an object that the core made on hpu for cuda; `kind` is the C name of its type."""
    used(kind.replace("torch._C.", "torch."))
