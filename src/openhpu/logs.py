"""Log messages in Gaudi's form: the logger PT_FALLBACK, to the console and to pytorch_log.txt."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from openhpu import events, settings

# Gaudi's levels 0 trace to 6 off, as levels of Python's logging.
_LEVELS = (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL, logging.CRITICAL + 1)
_FORMAT = "[%(asctime)s][%(name)s][%(levelname)s] %(message)s"

_DTYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long",
    "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def install() -> None:
    """Log CPU fallbacks, if LOG_LEVEL_* or the level of Python's logger PT_FALLBACK asks for it."""
    logger = logging.getLogger("PT_FALLBACK")
    level = _level("FALLBACK")
    if level is not None:
        logger.setLevel(level)
        if not logger.handlers:
            _add_handlers(logger)
    if logger.level != logging.NOTSET and logger.isEnabledFor(logging.INFO):
        events.subscribe("cpu_fallback", _log_fallback)


def _level(name: str) -> int | None:
    """The level of Python's logging that the environment gives the PyTorch logger `name`; None if it says none."""
    for variable in (f"LOG_LEVEL_PT_{name}", "LOG_LEVEL_ALL_PT", "LOG_LEVEL_ALL"):
        number = settings.get(variable)
        if number is not None:
            return _LEVELS[number]
    return None


def _add_handlers(logger: logging.Logger) -> None:
    formatter = logging.Formatter(_FORMAT)
    handlers: list[logging.Handler] = []
    folder = Path(settings.get("HABANA_LOGS") or Path.home() / ".habana_logs")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(folder / "pytorch_log.txt", delay=True))
    except OSError as error:
        print(f"openhpu: cannot write logs to {folder}: {error}; set HABANA_LOGS", file=sys.stderr)
    if settings.get("ENABLE_CONSOLE"):
        handlers.append(logging.StreamHandler())
        logger.propagate = False
    for handler in handlers:
        handler.setFormatter(formatter)
        logger.addHandler(handler)


def _log_fallback(event: events.Event) -> None:
    dtype = str(event.params.get("dtype", "")).removeprefix("torch.")
    operator = str(event.params.get("op", "?")).removeprefix("aten::")
    where = f" ({os.path.basename(event.site[0])}:{event.site[1]})" if event.site else ""
    message = "CPU fallback %s : self=HABANA%sType%s"
    logging.getLogger("PT_FALLBACK").info(message, operator, _DTYPES.get(dtype, dtype), where)
