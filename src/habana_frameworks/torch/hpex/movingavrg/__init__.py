"""Moving averages."""

from openhpu.interface.hpex.movingavrg import FusedEMA as FusedEMA
