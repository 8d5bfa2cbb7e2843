"""Metrics: the work of the accelerator as numbers, for the whole process or a part of it, and as files.

They count as a Gaudi does. `graph_compilation` counts new graphs: steps of lazy mode and captured graphs that the
process had not seen. `recipe_cache` counts steps: a miss if the graph is new, a hit otherwise. The counters of this
project's own compiler are in `openhpu.counters()`: `recipes_compiled`, `recipe_hits`, `recipe_misses`. Operators that
run eagerly compile no graph. `memory_defragmentation` stays zero, because the memory pool joins its blocks when they
are freed.
"""

import os

from openhpu.observe.metrics.dump import MetricDumpFormat, MetricDumpTrigger, metrics_dump, start_file
from openhpu.observe.metrics.gaudi_metrics import CpuFallback, GraphCompilation, MemoryDefragmentation, RecipeCache
from openhpu.observe.metrics.metric import Metric
from openhpu.observe.metrics.scopes import MetricNotFound, metric_global, metric_localcontext, start_over

__all__ = [
    "CpuFallback",
    "GraphCompilation",
    "MemoryDefragmentation",
    "Metric",
    "MetricDumpFormat",
    "MetricDumpTrigger",
    "MetricNotFound",
    "RecipeCache",
    "metric_global",
    "metric_localcontext",
    "metrics_dump",
]

os.register_at_fork(after_in_child=start_over)
start_file()
