"""Metrics as files: on request, and at the events that PT_HPU_METRICS_DUMP_TRIGGERS names."""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from openhpu import events, settings
from openhpu.hpu import _lifecycle
from openhpu.hpu.metrics.metric import Metric
from openhpu.hpu.metrics.registry import GLOBAL_METRICS


class MetricDumpFormat(Enum):
    """How metrics are written: a JSON array of records, or text."""

    json = "json"
    text = "text"


class MetricDumpTrigger(Enum):
    """What made metrics be written."""

    process_exit = "process_exit"
    mark_step = "mark_step"
    metric_change = "metric_change"
    user = "user"


def metrics_dump(metric_file: str | os.PathLike[str], format: MetricDumpFormat | str = MetricDumpFormat.json) -> None:
    """Write all metrics to `metric_file`, replacing it; missing folders are made. ValueError for another format."""
    path = Path(metric_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    _MetricFile(path, MetricDumpFormat(format)).write(GLOBAL_METRICS.values(), MetricDumpTrigger.user)


class _MetricFile:
    """A file that is complete after every write. It is made at the first one."""

    _CLOSE = "\n]\n"

    def __init__(self, path: Path, format: MetricDumpFormat) -> None:
        self._path = path
        self._format = format
        self._lock = threading.Lock()

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
        try:
            with self._path.open("r+", encoding="utf-8") as file:
                file.seek(self._path.stat().st_size - overwrite)
                file.write((",\n" if overwrite else "") + text)
        except FileNotFoundError:
            self._path.write_text(opening + text, encoding="utf-8")


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
    path = _free_path(_with_rank(Path(name)))
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _MetricFile(path, MetricDumpFormat(settings.get("PT_HPU_METRICS_FILE_FORMAT")))

    def write(metrics: Iterable[Metric], trigger: MetricDumpTrigger) -> None:
        if _lifecycle.is_initialized():
            file.write(metrics, trigger)

    def write_all(trigger: MetricDumpTrigger) -> None:
        write(GLOBAL_METRICS.values(), trigger)

    triggers = settings.get("PT_HPU_METRICS_DUMP_TRIGGERS")
    if "metric_change" in triggers:
        for metric in GLOBAL_METRICS.values():
            metric.on_metric_change(lambda changed: write([changed], MetricDumpTrigger.metric_change))
    if "mark_step" in triggers:
        events.subscribe("mark_step", lambda _: write_all(MetricDumpTrigger.mark_step))
    if "process_exit" in triggers:
        atexit.register(write_all, MetricDumpTrigger.process_exit)


def _with_rank(path: Path) -> Path:
    rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK")
    return path.with_name(f"{path.stem}-rank{rank}{path.suffix}") if rank else path


def _free_path(path: Path) -> Path:
    """`path`, or with .1, .2 and so on appended, the first that does not exist."""
    number, free = 0, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free
