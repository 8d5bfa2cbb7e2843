"""torch.compile on hpu: the backend `hpu_backend`, its options, and its graphs."""

from openhpu.capture.torch_compile.analyzer import FxGraphAnalyzer as FxGraphAnalyzer, OpCount as OpCount
from openhpu.capture.torch_compile.backend import hpu_backend as hpu_backend
from openhpu.capture.torch_compile.graph import (
    CompiledGraph as CompiledGraph,
    EagerFallbackError as EagerFallbackError,
    compiled_graphs as compiled_graphs,
)
