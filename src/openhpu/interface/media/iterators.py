"""PyTorch's iterators over media pipes."""

from collections.abc import Iterator
from typing import Any

import torch

from openhpu.interface.media.pipe import MediaPipe

_SIGNED = {torch.uint16: torch.int32, torch.uint32: torch.int32, torch.uint64: torch.int64}


class HPUGenericPytorchIterator:
    """Batches of a pipe as a list of tensors, on the pipe's device. An iteration is an epoch.

    Unsigned integers of more than 8 bits become signed ones, which operators of PyTorch take: uint16 and uint32 int32,
    uint64 int64.
    """

    def __init__(self, mediapipe: MediaPipe) -> None:
        if not isinstance(mediapipe, MediaPipe):
            raise TypeError(f"mediapipe is a {type(mediapipe).__name__}; expected a MediaPipe")
        self.pipe = mediapipe
        self.pipe.build()

    def __len__(self) -> int:
        """Batches of an epoch."""
        return len(self.pipe)

    def __iter__(self) -> Iterator[Any]:
        self.pipe.iter_init()
        return self

    def __next__(self) -> Any:
        found = self.pipe.run()
        tensors = [tensor.as_torch() for tensor in (found if isinstance(found, tuple) else (found,))]
        return [tensor.to(_SIGNED.get(tensor.dtype, tensor.dtype)) for tensor in tensors]


class HPUResnetPytorchIterator(HPUGenericPytorchIterator):
    """[images, labels]; labels are int64, as losses want them."""

    def __next__(self) -> list[torch.Tensor]:
        images, labels = super().__next__()
        return [images, labels.to(torch.int64)]


class CPUHPUResnetPytorchIterator(HPUResnetPytorchIterator):
    """The same, of a pipe that a Gaudi divides between the host and the card."""


class HPUSsdPytorchIterator(HPUGenericPytorchIterator):
    """The outputs of a detection pipe in its order: images, boxes and numbers; integers but for images are int64."""

    def __next__(self) -> list[torch.Tensor]:
        images, *more = super().__next__()
        return [images, *(one.to(torch.int64) if not one.is_floating_point() else one for one in more)]


class HPUUnet2DPytorchIterator(HPUGenericPytorchIterator):
    """[images, labels] of a segmentation pipe, as the pipe makes them."""


class HPUUnet3DPytorchIterator(HPUGenericPytorchIterator):
    """The same for volumes."""
