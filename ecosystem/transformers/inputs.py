"""What each kind of model is called with, labels among it."""

from collections.abc import Callable
from typing import Any

import torch

from ecosystem.transformers.models import VOCABULARY

BATCH = 2
LENGTH = 12
IMAGE_TOKEN = 98
IMAGE_TOKENS = 16


def _tokens(length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, VOCABULARY - 1, (BATCH, length))


def _text() -> dict[str, torch.Tensor]:
    """Two sequences, one of which is shorter: padded on the left, as generation wants it."""
    ids = _tokens()
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    ids[1, :3], mask[1, :3] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def _pixels() -> torch.Tensor:
    return torch.randn(BATCH, 3, 32, 32)


def _classes() -> torch.Tensor:
    return torch.randint(4, (BATCH,))


def _causal() -> dict[str, torch.Tensor]:
    text = _text()
    return {**text, "labels": text["input_ids"].clone()}


def _captions() -> dict[str, torch.Tensor]:
    ids = torch.cat([torch.full((BATCH, IMAGE_TOKENS), IMAGE_TOKEN), _tokens()], 1)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": _pixels(), "labels": ids.clone()}


def _boxes() -> dict[str, torch.Tensor]:
    return {"class_labels": torch.randint(4, (3,)), "boxes": torch.rand(3, 4) * 0.4 + 0.1}


INPUTS: dict[str, Callable[[], dict[str, Any]]] = {
    "causal": _causal,
    "classified": lambda: {**_text(), "labels": _classes()},
    "tagged": lambda: {**_text(), "labels": torch.randint(2, (BATCH, LENGTH))},
    "questions": lambda: {**_text(), "start_positions": torch.tensor([3, 5]), "end_positions": torch.tensor([4, 9])},
    "sequences": lambda: {**_text(), "labels": _tokens(7)},
    "images": lambda: {"pixel_values": _pixels(), "labels": _classes()},
    "segments": lambda: {"pixel_values": _pixels(), "labels": torch.randint(4, (BATCH, 32, 32))},
    "boxes": lambda: {"labels": [_boxes() for _ in range(BATCH)], "pixel_values": _pixels()},
    "speech": lambda: {"input_values": torch.randn(BATCH, 2400), "labels": _tokens(4)},
    "sounds": lambda: {"input_values": torch.randn(BATCH, 2400), "labels": _classes()},
    "features": lambda: {"input_features": torch.randn(BATCH, 16, 40), "labels": _tokens(7)},
    "spectrograms": lambda: {"input_values": torch.randn(BATCH, 24, 16), "labels": _classes()},
    "pairs": lambda: {"input_ids": _tokens(), "pixel_values": _pixels(), "return_loss": True},
    "captions": _captions,
    "series": lambda: {"past_values": torch.randn(BATCH, 32, 2), "future_values": torch.randn(BATCH, 8, 2)},
}
