"""Optimizers under Gaudi's names."""

from openhpu.hpex.optimizers.adamw import FusedAdamW
from openhpu.hpex.optimizers.lists import FusedAdagrad, FusedLamb, FusedLars, FusedResourceApplyMomentum, FusedSGD
from openhpu.hpex.optimizers.marking import Adam, AdamW
from openhpu.hpex.optimizers.sparse import SparseAdagrad, SparseSGD

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
