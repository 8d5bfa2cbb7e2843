"""The four metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from openhpu import events, settings
from openhpu.hpu.metrics.metric import Metric, Stats


class GraphCompilation(Metric):
    """Graphs compiled: TotalNumber, TotalTime and AvgTime in microseconds.

    With PT_HPU_METRICS_GC_DETAILS also `recipe`, a list of (name, microseconds). Counts events
    `graph_compilation` {duration: microseconds, recipe}.
    """

    NAME = "graph_compilation"
    KINDS = ("graph_compilation",)

    def _clear(self) -> None:
        self._recipes: list[tuple[str, int]] = []
        self._number = 0
        self._time_us = 0

    def _count(self, event: events.Event) -> None:
        duration = int(event.params["duration"])
        self._number += 1
        self._time_us += duration
        self._recipes.append((str(event.params.get("recipe", "")), duration))

    def stats(self) -> Stats:
        with self._lock:
            average = self._time_us // self._number if self._number else 0
            rows: Stats = [("TotalNumber", self._number), ("TotalTime", self._time_us), ("AvgTime", average)]
            if settings.get("PT_HPU_METRICS_GC_DETAILS"):
                rows.append(("recipe", list(self._recipes)))
            return rows


class CpuFallback(Metric):
    """Operators executed on the CPU: TotalNumber, FallbackOps {operator: number}.

    Reads the core's counters, so that counting costs nothing; listens only for those who want to hear of changes.
    """

    NAME = "cpu_fallback"
    KINDS = ("cpu_fallback",)

    def __init__(self) -> None:
        self._counted: Counter[str] = Counter()
        self._base: Counter[str] = Counter()
        super().__init__()
        events.watch_counters(self)

    def _clear(self) -> None:
        self._counted.clear()
        self.rebase()

    def _count(self, event: events.Event) -> None:
        """Nothing: the core has counted."""

    def fold(self) -> None:
        """Take what the core has counted since the last time."""
        if self._running:
            self._counted += Counter(events.fallback_ops()) - self._base
            self.rebase()

    def rebase(self) -> None:
        """Count what the core counts from now on."""
        self._base = Counter(events.fallback_ops())

    def start(self) -> None:
        if not self._running:
            self.rebase()
        super().start()

    def stop(self) -> None:
        with self._lock:
            self.fold()
        super().stop()

    def stats(self) -> Stats:
        with self._lock:
            self.fold()
            return [("TotalNumber", self._counted.total()), ("FallbackOps", dict(self._counted))]

    def on_metric_change(self, callback: Callable[[Metric], None]) -> None:
        super().on_metric_change(callback)
        if self._running and not self._subscriptions:
            super()._listen()

    def _listen(self) -> None:
        if self._callbacks:
            super()._listen()


class MemoryDefragmentation(Metric):
    """Defragmentations: TotalNumber, TotalSuccessful, AvgTime and MaxTime of the successful ones in milliseconds."""

    NAME = "memory_defragmentation"
    KINDS = ("memory_defragmentation",)

    def _clear(self) -> None:
        self._number = 0
        self._times_ms: list[float] = []

    def _count(self, event: events.Event) -> None:
        self._number += 1
        if event.params["success"]:
            self._times_ms.append(float(event.params["milliseconds"]))

    def stats(self) -> Stats:
        with self._lock:
            times = self._times_ms or [0.0]
            return [
                ("TotalNumber", self._number),
                ("TotalSuccessful", len(self._times_ms)),
                ("AvgTime", sum(times) / len(times)),
                ("MaxTime", max(times)),
            ]


class RecipeCache(Metric):
    """Lookups of recipes: TotalHit, RecipeHit {recipe: number}, TotalMiss, RecipeMiss. Exists with
    PT_HPU_ENABLE_CACHE_METRICS."""

    NAME = "recipe_cache"
    KINDS = ("cache_hit", "cache_miss")

    def _clear(self) -> None:
        self._hits: Counter[str] = Counter()
        self._misses: Counter[str] = Counter()

    def _count(self, event: events.Event) -> None:
        counted = self._hits if event.kind == "cache_hit" else self._misses
        counted[str(event.params["recipe_id"])] += 1

    def stats(self) -> Stats:
        with self._lock:
            return [
                ("TotalHit", self._hits.total()),
                ("RecipeHit", dict(self._hits)),
                ("TotalMiss", self._misses.total()),
                ("RecipeMiss", dict(self._misses)),
            ]
