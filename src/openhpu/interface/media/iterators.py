"""PyTorch's iterators over media pipes."""

from collections.abc import Iterator
from typing import Any

import torch

from openhpu.interface.media.pipe import MediaPipe


class HPUGenericPytorchIterator:
    """Batches of a pipe as a list of tensors, on the pipe's device. An iteration is an epoch."""

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
        return [tensor.as_torch() for tensor in (found if isinstance(found, tuple) else (found,))]


class HPUResnetPytorchIterator(HPUGenericPytorchIterator):
    """[images, labels]; labels are int64, as losses want them."""

    def __next__(self) -> list[torch.Tensor]:
        images, labels = super().__next__()
        return [images, labels.to(torch.int64)]
