"""A model and its images, the same each time."""

from typing import Any

import timm
import torch

from ecosystem.timm.architectures import CONVOLUTIONAL, SMALL_IMAGE

CLASSES = 10


def make(name: str) -> Any:
    """The model on the CPU, with random weights."""
    torch.manual_seed(0)
    return timm.create_model(name, pretrained=False, num_classes=CLASSES)


def batch(name: str, rows: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and their classes, on the CPU."""
    torch.manual_seed(1)
    size = SMALL_IMAGE if name in CONVOLUTIONAL else timm.get_pretrained_cfg(name).input_size[-1]
    return torch.randn(rows, 3, size, size), torch.randint(CLASSES, (rows,))
