"""Metrics as files: on request, and at the events that PT_HPU_METRICS_DUMP_TRIGGERS names."""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, TextIO

from openhpu import _C, settings
from openhpu.observe import events, process_names
from openhpu.observe.metrics.metric import Metric
from openhpu.observe.metrics.scopes import GLOBAL_METRICS
from openhpu.observe.process_end import at_process_end
from openhpu.settings import folders


class MetricDumpFormat(Enum):
    """How metrics are written: a JSON array of records, or text."""

    json = "json"
    text = "text"


class MetricDumpTrigger(Enum):
    """The triggers of a write of metrics."""

    process_exit = "process_exit"
    mark_step = "mark_step"
    metric_change = "metric_change"
    user = "user"


def metrics_dump(metric_file: str | os.PathLike[str], format: MetricDumpFormat | str = MetricDumpFormat.json) -> None:
    """Write all metrics to `metric_file`, replacing it; missing folders are made. ValueError for another format."""
    path = Path(metric_file)
    path.unlink(missing_ok=True)
    _MetricFile(lambda: path, MetricDumpFormat(format)).write(GLOBAL_METRICS.values(), MetricDumpTrigger.user)


class _MetricFile:
    """A file that is complete after every write. It is made at the first one, under a name that is free then."""

    _CLOSE = "\n]\n"

    def __init__(self, name: Callable[[], Path], format: MetricDumpFormat) -> None:
        self._name = name
        self._path: Path | None = None
        self._format = format
        self._lock = threading.Lock()

    def forget(self) -> None:
        """In a forked child: the file is its parent's, and a thread of the parent may have held the lock."""
        self._lock = threading.Lock()
        self._path = None

    def write(self, metrics: Iterable[Metric], trigger: MetricDumpTrigger) -> None:
        records = [
            {
                "metric_name": metric.name(),
                "triggered_by": trigger.value,
                "generated_on": datetime.now().astimezone().isoformat(),
                "statistics": dict(metric.stats()),
            }
            for metric in metrics
        ]
        with self._lock:
            if self._format is MetricDumpFormat.text:
                self._append("".join(map(_as_text, records)), 0, "")
            else:
                text = ",\n".join(json.dumps(record) for record in records)
                self._append(text + self._CLOSE, len(self._CLOSE), "[\n")

    def _append(self, text: str, overwrite: int, opening: str) -> None:
        """Write at the end, over the last `overwrite` bytes; a new file begins with `opening`."""
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):  # somebody has removed it
                with open(folders.opened(self._path, os.O_RDWR | os.O_NOFOLLOW), "r+", encoding="utf-8") as file:
                    file.seek(max(0, self._path.stat().st_size - overwrite))
                    file.write((",\n" if overwrite else "") + text)
                return
        made = _make(self._name())
        try:
            with made:
                made.write(opening + text)
        except OSError:
            Path(made.name).unlink(missing_ok=True)
            raise
        self._path = Path(made.name)


def _as_text(record: dict[str, Any]) -> str:
    statistics = "".join(f"\t{tag}: {value}\n" for tag, value in record["statistics"].items())
    return (
        f"Metric name: {record['metric_name']}\nTriggered by: {record['triggered_by']}\n"
        f"Generated on: {record['generated_on']}\nStatistics:\n{statistics}\n"
    )


def start_file() -> None:
    """Begin writing PT_HPU_METRICS_FILE, if it is set. Nothing is written before a device was opened."""
    name = settings.get("PT_HPU_METRICS_FILE")
    if not name:
        return
    path = Path(name)
    made_in = os.getpid()

    def free() -> Path:
        return path.with_name(f"{path.stem}{process_names.suffix(made_in)}{path.suffix}")

    file = _MetricFile(free, MetricDumpFormat(settings.get("PT_HPU_METRICS_FILE_FORMAT")))
    os.register_at_fork(after_in_child=file.forget)

    def write(trigger: MetricDumpTrigger, *changed: Metric) -> None:
        if _C.is_initialized() and not _C.is_in_bad_fork():
            try:
                file.write(changed or GLOBAL_METRICS.values(), trigger)
            except OSError as error:
                folders.tell("metrics", OSError(error.errno, error.strerror, name), "; set PT_HPU_METRICS_FILE")

    triggers = settings.get("PT_HPU_METRICS_DUMP_TRIGGERS")
    if "metric_change" in triggers:
        for metric in GLOBAL_METRICS.values():
            metric.on_metric_change(lambda changed: write(MetricDumpTrigger.metric_change, changed))
    if "mark_step" in triggers:
        events.subscribe("mark_step", lambda _: write(MetricDumpTrigger.mark_step))
    if "process_exit" in triggers:
        at_process_end(lambda: write(MetricDumpTrigger.process_exit))


def _make(path: Path) -> TextIO:
    """A new file at `path`, or with .1, .2 and so on appended: whichever does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number = 0
    free = path
    while True:
        try:
            return free.open("x", encoding="utf-8")
        except FileExistsError:
            number += 1
            free = path.with_name(f"{path.name}.{number}")
