"""Moving averages."""

from openhpu.hpex.movingavrg import FusedEMA

__all__ = ["FusedEMA"]
