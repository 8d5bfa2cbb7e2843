"""Optimizers under Gaudi's names."""

from openhpu.interface.hpex.optimizers.adamw import FusedAdamW as FusedAdamW
from openhpu.interface.hpex.optimizers.lists import (
    FusedAdagrad as FusedAdagrad,
    FusedLamb as FusedLamb,
    FusedLars as FusedLars,
    FusedResourceApplyMomentum as FusedResourceApplyMomentum,
    FusedSGD as FusedSGD,
)
from openhpu.interface.hpex.optimizers.marking import Adam as Adam, AdamW as AdamW
from openhpu.interface.hpex.optimizers.sparse import SparseAdagrad as SparseAdagrad, SparseSGD as SparseSGD
