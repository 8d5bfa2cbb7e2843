"""Records what an Intel Gaudi computes: `gaudi-record probe`, `gaudi-record script.py`, and `record` as a context.

It needs PyTorch 2.6 or newer and, on a Gaudi, the vendor's packages. It does not need OpenHPU; `openhpu replay` does.
"""

from typing import Any

from openhpu_record.errors import RecordError

__version__ = "0.1.0"
__all__ = ["RecordError", "record", "step"]


def __getattr__(name: str) -> Any:
    """`record` and `step` import PyTorch, which a command does not need."""
    if name in ("record", "step"):
        from openhpu_record import recorder

        return getattr(recorder, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
