"""Optimizers under Gaudi's names."""

from openhpu.interface.hpex.optimizers.adamw import FusedAdamW
from openhpu.interface.hpex.optimizers.lists import (
    FusedAdagrad,
    FusedLamb,
    FusedLars,
    FusedResourceApplyMomentum,
    FusedSGD,
)
from openhpu.interface.hpex.optimizers.marking import Adam, AdamW
from openhpu.interface.hpex.optimizers.sparse import SparseAdagrad, SparseSGD

__all__ = [
    "Adam",
    "AdamW",
    "FusedAdagrad",
    "FusedAdamW",
    "FusedLamb",
    "FusedLars",
    "FusedResourceApplyMomentum",
    "FusedSGD",
    "SparseAdagrad",
    "SparseSGD",
]
