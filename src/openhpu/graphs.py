"""Graphs of lazy mode, as Python sees them: the settings in force, and what becomes of recorded graphs."""

from __future__ import annotations

import atexit

from openhpu import settings


def start() -> None:
    """Apply the settings of lazy mode. Called once, when the mode is read."""
    from openhpu import _C

    policy = settings.get("OPENHPU_COMPILE")
    _C.configure_graphs(policy, settings.get("HABANA_PGM_LRU_MAX"), settings.get("PT_HPU_MAX_COMPOUND_OP_SIZE"))
    atexit.register(_C.close_graphs)
