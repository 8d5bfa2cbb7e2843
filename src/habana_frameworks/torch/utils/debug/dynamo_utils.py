"""Functions that show the graphs of torch.compile. Not imported with the package: it needs torch.fx."""

from openhpu.capture.torch_compile import FxGraphAnalyzer as FxGraphAnalyzer, OpCount as OpCount
