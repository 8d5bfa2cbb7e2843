"""Metrics: what the accelerator had to do, as numbers, for the whole process or a part of it, and as files.

`graph_compilation` counts what lazy mode's compiler makes, `recipe_cache` the core's lookups of recipes: each graph
that a step hands to the device is a hit if its recipe is there. Operators that run eagerly compile no graph.
`memory_defragmentation` stays zero: the memory pool coalesces its blocks when they are freed.
"""

from openhpu.hpu.metrics.dump import MetricDumpFormat, MetricDumpTrigger, metrics_dump, start_file
from openhpu.hpu.metrics.kinds import CpuFallback, GraphCompilation, MemoryDefragmentation, RecipeCache
from openhpu.hpu.metrics.metric import Metric
from openhpu.hpu.metrics.registry import MetricNotFound, metric_global, metric_localcontext

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

start_file()
