"""torch.compile on hpu: the backend `hpu_backend`, its options, and what became of the graphs."""

from openhpu.dynamo.analyzer import FxGraphAnalyzer, OpCount
from openhpu.dynamo.backend import hpu_backend
from openhpu.dynamo.graph import CompiledGraph, EagerFallbackError, compiled_graphs
from openhpu.dynamo.options import VARIABLES as OPTIONS

__all__ = [
    "CompiledGraph",
    "EagerFallbackError",
    "FxGraphAnalyzer",
    "OPTIONS",
    "OpCount",
    "compiled_graphs",
    "hpu_backend",
]
