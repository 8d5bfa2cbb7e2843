"""The metrics of the whole process, and metrics of a part of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from openhpu import settings
from openhpu.observe import events
from openhpu.observe.metrics.gaudi_metrics import CpuFallback, GraphCompilation, MemoryDefragmentation, RecipeCache
from openhpu.observe.metrics.metric import Metric


class MetricNotFound(KeyError):
    """There is no metric of that name; the text lists the names."""

    def __str__(self) -> str:
        return str(self.args[0])


_classes: list[type[Metric]] = [GraphCompilation, CpuFallback, MemoryDefragmentation]
if settings.get("PT_HPU_ENABLE_CACHE_METRICS"):
    _classes.append(RecipeCache)

# In the order in which files list them.
GLOBAL_METRICS: dict[str, Metric] = {cls.NAME: cls() for cls in _classes}
for _metric in GLOBAL_METRICS.values():
    _metric.start()


def start_over() -> None:
    """In a forked child: the counts of its parent are not its own."""
    events.reset_counters()
    for metric in GLOBAL_METRICS.values():
        metric.forget()


def metric_global(name: str) -> Metric | None:
    """The metric of the whole process, or None if there is none of that name."""
    return GLOBAL_METRICS.get(name)


@contextmanager
def metric_localcontext(name: str) -> Iterator[Metric]:
    """A metric that counts inside the with block only. Raises MetricNotFound."""
    if name not in GLOBAL_METRICS:
        hint = " (set PT_HPU_ENABLE_CACHE_METRICS=1)" if name == RecipeCache.NAME else ""
        raise MetricNotFound(f"no metric {name!r}{hint}; there are: {', '.join(GLOBAL_METRICS)}")
    metric = type(GLOBAL_METRICS[name])()
    metric.start()
    try:
        yield metric
    finally:
        metric.stop()
