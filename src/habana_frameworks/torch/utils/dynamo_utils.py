"""Looking at what torch.compile made. Not imported with the package: it needs torch.fx."""

from openhpu.capture.torch_compile import FxGraphAnalyzer, OpCount

__all__ = ["FxGraphAnalyzer", "OpCount"]
