"""Metrics: what the accelerator had to do, as numbers, for the whole process or a part of it, and as files.

They count as a Gaudi does. `graph_compilation` counts new graphs: steps of lazy mode and captured graphs of which the
process had not seen the like. `recipe_cache` counts steps: a miss where the graph is new, a hit where it is not. What
this project's own compiler did is in `openhpu.counters()`: `recipes_compiled`, `recipe_hits`, `recipe_misses`.
Operators that run eagerly compile no graph. `memory_defragmentation` stays zero: the memory pool coalesces its blocks
when they are freed.
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
