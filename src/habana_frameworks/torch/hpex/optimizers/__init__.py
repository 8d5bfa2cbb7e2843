"""Fused optimizers."""

from openhpu.interface.hpex.optimizers import (
    Adam,
    AdamW,
    FusedAdagrad,
    FusedAdamW,
    FusedLamb,
    FusedLars,
    FusedResourceApplyMomentum,
    FusedSGD,
    SparseAdagrad,
    SparseSGD,
)

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
