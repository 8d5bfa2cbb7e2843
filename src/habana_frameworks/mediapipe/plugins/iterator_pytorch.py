"""PyTorch's iterators over media pipes."""

from openhpu.interface.media.iterators import HPUGenericPytorchIterator, HPUResnetPytorchIterator

__all__ = ["HPUGenericPytorchIterator", "HPUResnetPytorchIterator"]
