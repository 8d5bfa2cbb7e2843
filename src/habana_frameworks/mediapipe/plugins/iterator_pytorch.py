"""PyTorch's iterators over media pipes."""

from openhpu.interface.media.iterators import (
    CPUHPUResnetPytorchIterator,
    HPUGenericPytorchIterator,
    HPUResnetPytorchIterator,
    HPUSsdPytorchIterator,
    HPUUnet2DPytorchIterator,
    HPUUnet3DPytorchIterator,
)

__all__ = [
    "CPUHPUResnetPytorchIterator",
    "HPUGenericPytorchIterator",
    "HPUResnetPytorchIterator",
    "HPUSsdPytorchIterator",
    "HPUUnet2DPytorchIterator",
    "HPUUnet3DPytorchIterator",
]
