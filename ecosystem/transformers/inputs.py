"""What each kind of model is called with, labels among it."""

import torch

from ecosystem.transformers.models import VOCABULARY

BATCH, LENGTH = 2, 12
IMAGE_TOKEN, IMAGE_TOKENS = 98, 16


def _tokens(length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, VOCABULARY - 1, (BATCH, length))


def _text() -> dict[str, torch.Tensor]:
    """Two sequences, one of which is shorter: padded on the left, as generation wants it."""
    ids, mask = _tokens(), torch.ones(BATCH, LENGTH, dtype=torch.long)
    ids[1, :3], mask[1, :3] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def _pixels() -> torch.Tensor:
    return torch.randn(BATCH, 3, 32, 32)


def _classes() -> torch.Tensor:
    return torch.randint(4, (BATCH,))


def causal() -> dict[str, torch.Tensor]:
    text = _text()
    return {**text, "labels": text["input_ids"].clone()}


def classified() -> dict[str, torch.Tensor]:
    return {**_text(), "labels": _classes()}


def tagged() -> dict[str, torch.Tensor]:
    return {**_text(), "labels": torch.randint(2, (BATCH, LENGTH))}


def questions() -> dict[str, torch.Tensor]:
    return {**_text(), "start_positions": torch.tensor([3, 5]), "end_positions": torch.tensor([4, 9])}


def sequences() -> dict[str, torch.Tensor]:
    return {**_text(), "labels": _tokens(7)}


def images() -> dict[str, torch.Tensor]:
    return {"pixel_values": _pixels(), "labels": _classes()}


def segments() -> dict[str, torch.Tensor]:
    return {"pixel_values": _pixels(), "labels": torch.randint(4, (BATCH, 32, 32))}


def boxes() -> dict[str, object]:
    each = [
        {"class_labels": torch.randint(4, (3,)), "boxes": torch.rand(3, 4) * 0.4 + 0.1} for _ in range(BATCH)
    ]  # fmt: skip
    return {"pixel_values": _pixels(), "labels": each}


def speech() -> dict[str, torch.Tensor]:
    return {"input_values": torch.randn(BATCH, 2400), "labels": _tokens(4)}


def sounds() -> dict[str, torch.Tensor]:
    return {"input_values": torch.randn(BATCH, 2400), "labels": _classes()}


def features() -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(BATCH, 16, 40), "labels": _tokens(7)}


def spectrograms() -> dict[str, torch.Tensor]:
    return {"input_values": torch.randn(BATCH, 24, 16), "labels": _classes()}


def pairs() -> dict[str, object]:
    return {"input_ids": _tokens(), "pixel_values": _pixels(), "return_loss": True}


def captions() -> dict[str, torch.Tensor]:
    ids = torch.cat([torch.full((BATCH, IMAGE_TOKENS), IMAGE_TOKEN), _tokens()], 1)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": _pixels(), "labels": ids.clone()}


def series() -> dict[str, torch.Tensor]:
    return {"past_values": torch.randn(BATCH, 32, 2), "future_values": torch.randn(BATCH, 8, 2)}
