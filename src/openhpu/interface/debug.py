"""Helpers that scripts call to look inside, or to leave a line in the log."""

import json
import logging
import sys
from functools import partialmethod
from pathlib import Path
from typing import Any

import torch

from openhpu import _C
from openhpu.compiler.client import client
from openhpu.device import mode
from openhpu.interface import hpu
from openhpu.observe import events

_LEVELS = {"trace": 5, "debug": 10, "info": 20, "warn": 30, "warning": 30, "error": 40, "critical": 50}


class Logger:
    """Messages to Gaudi's logger PT_<name>, which goes where LOG_LEVEL_PT_<name> and Python's logging say."""

    def __init__(self, name: str = "PYTHON") -> None:
        self._logger = logging.getLogger(f"PT_{name.upper().removeprefix('PT_')}")
        self._data: list[str] | None = None

    def set_store_data(self, store: bool) -> None:
        """Keep messages in memory, too, for `data`; False forgets them."""
        self._data = [] if store else None

    @property
    def data(self) -> list[str]:
        """The messages kept since `set_store_data(True)`."""
        return list(self._data or ())

    def _log(self, level: str, message: str) -> None:
        if self._data is not None:
            self._data.append(message)
        self._logger.log(_LEVELS[level], "%s", message)

    trace = partialmethod(_log, "trace")
    debug = partialmethod(_log, "debug")
    info = partialmethod(_log, "info")
    warn = partialmethod(_log, "warn")
    error = partialmethod(_log, "error")
    critical = partialmethod(_log, "critical")


def enable_logging(name: str, level: str | int = "debug") -> None:
    """Let the logger PT_<name> write messages from `level` on to stderr. ValueError for an unknown level."""
    number = _LEVELS.get(level.lower()) if isinstance(level, str) else level
    if number is None:
        raise ValueError(f"log level {level!r} is not known; expected a number or one of {', '.join(_LEVELS)}")
    logger = logging.getLogger(f"PT_{name.upper().removeprefix('PT_')}")
    logger.setLevel(number)
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("[%(name)s][%(levelname)s] %(message)s"))
        logger.addHandler(handler)


def jit_cache_size() -> int:
    """How many different graphs lazy mode has seen."""
    return int(_C.graphs_seen())


def clear_jit_cache() -> None:
    """Forget all graphs and recipes of this process; those on disk stay."""
    _C.clear_graphs()


def get_tensor_info(tensor: torch.Tensor) -> tuple[int, int]:
    """The address of an hpu tensor's first element and its size in bytes."""
    if tensor.device.type != "hpu":
        raise RuntimeError(f"get_tensor_info expects a tensor on hpu, but got one on {tensor.device}")
    return _C.data_ptr(tensor), tensor.numel() * tensor.element_size()


def log_memory(message: str = "") -> None:
    """A line with the memory in use to the logger PT_MEMLOG."""
    used = hpu.memory_allocated(), hpu.max_memory_allocated()
    logging.getLogger("PT_MEMLOG").info("%s in use %d, peak %d bytes", message, *used)


def dump_memory_report(path: str = "memory.reporter.json") -> None:
    """Write the memory statistics as JSON."""
    Path(path).write_text(json.dumps(hpu.memory_stats(), indent=1), encoding="utf-8")


def state() -> dict[str, Any]:
    """The state of the device of this process: mode, counters, memory, graphs and recipes."""
    return {
        "mode": mode.name(),
        "counters": events.counters(),
        "memory": hpu.memory_stats() if hpu.is_initialized() else {},
        "graphs": jit_cache_size(),
        "recipes": [recipe.name for recipe in client.recipes()],
    }


def dump_state_and_terminate(message: str = "", path: str = "device_state.json") -> None:
    """Write `state()` to `path` and end the process with RuntimeError."""
    Path(path).write_text(json.dumps(state(), indent=1), encoding="utf-8")
    raise RuntimeError(f"terminated on request: {message or 'no reason given'}; the device's state is in {path}")


def refused(module: str, name: str) -> AttributeError:
    """The error of a function of Gaudi's debug modules that has no meaning here."""
    return AttributeError(
        f"module {module!r} has no attribute {name!r}: it looks into Gaudi's graph compiler or driver, which is not "
        "there; openhpu.counters() and `openhpu run` show what the device does"
    )
