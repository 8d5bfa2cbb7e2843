"""torch.compile on hpu: the backend `hpu_backend`, its options, and its graphs."""

from openhpu.capture.torch_compile.analyzer import FxGraphAnalyzer, OpCount
from openhpu.capture.torch_compile.backend import hpu_backend
from openhpu.capture.torch_compile.graph import CompiledGraph, EagerFallbackError, compiled_graphs
from openhpu.capture.torch_compile.options import VARIABLES as OPTIONS

__all__ = [
    "CompiledGraph",
    "EagerFallbackError",
    "FxGraphAnalyzer",
    "OPTIONS",
    "OpCount",
    "compiled_graphs",
    "hpu_backend",
]
