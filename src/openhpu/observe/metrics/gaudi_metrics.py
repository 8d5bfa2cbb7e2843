"""The four metrics."""

from abc import abstractmethod
from collections import Counter

from openhpu import _C, settings
from openhpu.observe import events
from openhpu.observe.metrics.metric import Metric, Stats


class _Counted(Metric):
    """A metric whose number is the core's counter, so that counting costs nothing.

    It listens to the core's event `CHANGE` only for those who want to hear of changes.
    """

    CHANGE = ""

    @staticmethod
    @abstractmethod
    def _read() -> Counter[str]:
        """The counters of the core, which only rise."""

    def _clear(self) -> None:
        self._counted: Counter[str] = Counter()
        self._base = self._read()

    def _count(self, event: events.Event) -> None:
        """Nothing: the core has counted."""

    def _fold(self) -> None:
        now = self._read()
        if self._running:
            self._counted += now - self._base
        self._base = now

    def _kinds(self) -> tuple[str, ...]:
        return (*self.KINDS, self.CHANGE) if self._callbacks else self.KINDS


class GraphCompilation(_Counted):
    """New graphs: TotalNumber, TotalTime and AvgTime in microseconds.

    TotalNumber counts graphs at their first sight, where a Gaudi compiles them, whether or not a recipe is made here.
    TotalTime is what the compiler took, if it was asked; AvgTime is that for each new graph. With
    PT_HPU_METRICS_GC_DETAILS also `recipe`, a list of (name, microseconds) of the recipes made. Counts events
    `graph_compilation` {duration: microseconds, recipe}.
    """

    NAME = "graph_compilation"
    KINDS = ("graph_compilation",)
    CHANGE = "cache_miss"

    @staticmethod
    def _read() -> Counter[str]:
        return Counter(graphs=_C.counters()["graphs_new"])

    def _clear(self) -> None:
        super()._clear()
        self._recipes: list[tuple[str, int]] = []
        self._time_us = 0

    def _count(self, event: events.Event) -> None:
        if event.kind == self.CHANGE:
            return
        duration = int(event.params["duration"])
        self._time_us += duration
        self._recipes.append((str(event.params.get("recipe", "")), duration))

    def _rows(self) -> Stats:
        number = self._counted.total()
        average = self._time_us // number if number else 0
        rows: Stats = [("TotalNumber", number), ("TotalTime", self._time_us), ("AvgTime", average)]
        if settings.get("PT_HPU_METRICS_GC_DETAILS"):
            rows.append(("recipe", list(self._recipes)))
        return rows


class CpuFallback(_Counted):
    """Operators executed on the CPU: TotalNumber, FallbackOps {operator: number}."""

    NAME = "cpu_fallback"
    CHANGE = "cpu_fallback"

    @staticmethod
    def _read() -> Counter[str]:
        return Counter(_C.fallback_ops())

    def _rows(self) -> Stats:
        return [("TotalNumber", self._counted.total()), ("FallbackOps", dict(self._counted))]


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

    def _rows(self) -> Stats:
        times = self._times_ms or [0.0]
        return [
            ("TotalNumber", self._number),
            ("TotalSuccessful", len(self._times_ms)),
            ("AvgTime", sum(times) / len(times)),
            ("MaxTime", max(times)),
        ]


class RecipeCache(Metric):
    """Graphs found and not found: TotalHit, RecipeHit {recipe: number}, TotalMiss, RecipeMiss.

    A graph is missed at its first sight, where a Gaudi compiles it, and hit from the second on, whether or not it runs
    as a recipe. Exists with PT_HPU_ENABLE_CACHE_METRICS.
    """

    NAME = "recipe_cache"
    KINDS = ("cache_hit", "cache_miss")

    def _clear(self) -> None:
        self._hits: Counter[str] = Counter()
        self._misses: Counter[str] = Counter()

    def _count(self, event: events.Event) -> None:
        counted = self._hits if event.kind == "cache_hit" else self._misses
        counted[str(event.params["recipe_id"])] += 1

    def _rows(self) -> Stats:
        return [
            ("TotalHit", self._hits.total()),
            ("RecipeHit", dict(self._hits)),
            ("TotalMiss", self._misses.total()),
            ("RecipeMiss", dict(self._misses)),
        ]
