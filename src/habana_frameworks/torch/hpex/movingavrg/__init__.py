"""Moving averages."""

from openhpu.interface.hpex.movingavrg import FusedEMA

__all__ = ["FusedEMA"]
