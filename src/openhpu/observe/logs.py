"""Log messages in Gaudi's form: loggers PT_FALLBACK, PT_LAZY and so on, to the console and to pytorch_log.txt.

The messages are events of `openhpu.observe.events`. A logger that is off costs nothing. LOG_LEVEL_* switches a logger
on. If they are unset, the older bit masks PT_HPU_LOG_MOD_MASK and PT_HPU_LOG_TYPE_MASK do, or the level of Python's
logger of that name.
"""

import functools
import logging
import os
from collections.abc import Callable
from pathlib import Path

from openhpu import settings
from openhpu.observe import events
from openhpu.settings import folders

TRACE = 5
# Gaudi's levels 0 trace to 6 off, as levels of Python's logging.
_LEVELS = (TRACE, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL, logging.CRITICAL + 1)
_FORMAT = "[%(asctime)s][%(name)s][%(levelname)s] %(message)s"

# The bits of PT_HPU_LOG_MOD_MASK.
_MODULES = {
    "DEVICE": 0x1,
    "KERNEL": 0x2,
    "BRIDGE": 0x4,
    "SYNHELPER": 0x8,
    "DISTRIBUTED": 0x10,
    "LAZY": 0x20,
    "DEVMEM": 0x40,
    "FALLBACK": 0x80,
}


def _fallback(event: events.Event) -> str:
    operator = str(event.params.get("op", "?")).removeprefix("aten::")
    return f"CPU fallback {operator} : self=HABANA{event.params.get('dtype', '')}Type"


def _recompilation(event: events.Event) -> str:
    from openhpu.observe.insight import documents, sentences  # with the first message: most scripts have none

    return f"recompilation by {event.params['cause']}: {sentences.recompilation(documents.changed(event.params))}"


def _graph(event: events.Event) -> str:
    p = event.params
    return f"graph {p['recipe_id']} of {p['operators']} operators handed over, ran as {p['recipe'] or p['ran']}"


def _wait(event: events.Event) -> str:
    p = event.params
    what = f"{p['graphs']} graphs" if p["graphs"] > 1 else f"a graph of {p['ops']} operators"
    return f"the script {'waited' if p['over'] else 'waits'} {p['seconds']:.0f} s for the compiler to make {what}"


# The kind of an event, the logger and level of its message, and the text.
_MESSAGES: tuple[tuple[str, str, int, Callable[[events.Event], str]], ...] = (
    ("cpu_fallback", "FALLBACK", logging.INFO, _fallback),
    ("device_acquired", "DEVICE", logging.INFO, lambda e: f"device {e.params['device']} acquired"),
    ("error", "BRIDGE", logging.ERROR, lambda e: f"{e.params['op']}: {e.params['message']}"),
    ("recompilation", "DYNAMIC_SHAPE", logging.INFO, _recompilation),
    (
        "graph_compilation",
        "RECIPE_STATS",
        logging.INFO,
        lambda e: f"recipe {e.params['recipe']} compiled in {e.params['duration'] / 1e6:.2f} s",
    ),
    ("recipe_loaded", "RECIPE_STATS", logging.INFO, lambda e: f"recipe {e.params['recipe']} loaded from disk"),
    ("compiler_wait", "LAZY", logging.WARNING, _wait),
    ("graph_recorded", "LAZY", logging.DEBUG, _graph),
    ("mark_step", "LAZY", TRACE, lambda e: "mark_step"),
    (
        "blocking_read",
        "BRIDGE",
        logging.DEBUG,
        lambda e: f"the host waits for {e.params['bytes']} bytes in {e.params['op']}",
    ),
    ("wait", "BRIDGE", logging.DEBUG, lambda e: f"the host waits in {e.params['op']} ({e.params['kind']})"),
    ("copy", "SYNHELPER", TRACE, lambda e: f"copy {e.params['kind']} of {e.params['bytes']} bytes"),
    ("allocation_peak", "DEVMEM", logging.DEBUG, lambda e: f"new peak of {e.params['bytes']} bytes in use"),
)


def install() -> None:
    """Start the loggers that the environment, or the level of one of Python's loggers, switches on."""
    logging.addLevelName(TRACE, "TRACE")
    handlers: list[logging.Handler] = []
    for name in dict.fromkeys(logger for _, logger, _, _ in _MESSAGES):
        logger = logging.getLogger(f"PT_{name}")
        level, allowed = _asked(name)
        if level is not None:
            logger.setLevel(level)
            if not logger.handlers:
                handlers = handlers or _handlers()
                for handler in handlers:
                    logger.addHandler(handler)
                logger.propagate = logger.propagate and not settings.get("ENABLE_CONSOLE")
            if allowed is not None:
                logger.addFilter(_of_types(allowed))
        for kind, whose, severity, text in _MESSAGES:
            if whose == name and logger.level != logging.NOTSET and logger.isEnabledFor(severity):
                events.subscribe(kind, functools.partial(_log, logger, severity, text))


def _log(logger: logging.Logger, level: int, text: Callable[[events.Event], str], event: events.Event) -> None:
    where = f" ({os.path.basename(event.site[0])}:{event.site[1]})" if event.site else ""
    logger.log(level, "%s%s", text(event), where)


def _asked(name: str) -> tuple[int | None, int | None]:
    """For a PyTorch logger: the level of Python's logging that the environment gives it, and the mask of types."""
    for variable in (f"LOG_LEVEL_PT_{name}", "LOG_LEVEL_ALL_PT", "LOG_LEVEL_ALL"):
        number = settings.get(variable)
        if number is not None:
            return _LEVELS[number], None
    if settings.get("PT_HPU_LOG_MOD_MASK") & _MODULES.get(name, 0):
        return TRACE, settings.get("PT_HPU_LOG_TYPE_MASK")
    return None, None


def _of_types(allowed: int) -> Callable[[logging.LogRecord], bool]:
    """The filter of PT_HPU_LOG_TYPE_MASK, whose bits let messages through: fatal 1, warning 2, trace 4, debug 8."""
    bits = ((logging.ERROR, 1), (logging.WARNING, 2), (TRACE + 1, 8), (0, 4))
    return lambda record: bool(next(bit for level, bit in bits if record.levelno >= level) & allowed)


class LogFile:
    """The stream of a file in the folder HABANA_LOGS, made at the first line. Where it cannot be written, one message
    says so, and the lines are lost from then on."""

    def __init__(self, name: str) -> None:
        self._path = Path(settings.get("HABANA_LOGS") or folders.home() / ".habana_logs") / name
        self._file: int | None = None
        self._failed = False

    def write(self, text: str) -> None:
        """Append, in one piece: processes that share the file don't mix their lines."""
        if self._failed:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = folders.opened(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
            os.write(self._file, text.encode(errors="replace"))
        except OSError as error:
            self._failed = True
            folders.tell(f"the log {self._path}", error, "; set HABANA_LOGS")


def _handlers() -> list[logging.Handler]:
    formatter = logging.Formatter(_FORMAT)
    handlers: list[logging.Handler] = [logging.StreamHandler(LogFile("pytorch_log.txt"))]
    if settings.get("ENABLE_CONSOLE"):
        handlers.append(logging.StreamHandler())
    for handler in handlers:
        handler.setFormatter(formatter)
    return handlers
