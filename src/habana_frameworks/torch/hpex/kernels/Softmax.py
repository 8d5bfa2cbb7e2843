"""Softmaxes."""

from openhpu.interface.hpex.kernels import RaggedSoftmax as RaggedSoftmax, triu_masked_softmax as triu_masked_softmax
