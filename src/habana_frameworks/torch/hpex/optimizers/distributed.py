"""Optimizers for several ranks: a step is the same on each."""

from openhpu.interface.hpex.optimizers.distributed import FusedAdamW as FusedAdamW
