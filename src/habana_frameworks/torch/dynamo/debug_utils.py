"""What torch.compile made of a script: the graphs, and which of their operators run eagerly."""

from openhpu.capture.torch_compile import FxGraphAnalyzer as FxGraphAnalyzer, OpCount as OpCount
