"""Looking at what torch.compile made. Not imported with the package: it needs torch.fx."""

from openhpu.dynamo import FxGraphAnalyzer, OpCount

__all__ = ["FxGraphAnalyzer", "OpCount"]
