"""Softmaxes."""

from openhpu.interface.hpex.kernels import RaggedSoftmax, triu_masked_softmax

__all__ = ["RaggedSoftmax", "triu_masked_softmax"]
