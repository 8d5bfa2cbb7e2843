"""Gaudi's data loader, which is PyTorch's where the device has no decoder of images. This one never has."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from openhpu import settings

_FALLBACK = "DATALOADER_FALLBACK_EN"


class HabanaDataLoader(DataLoader[Any]):
    """torch.utils.data.DataLoader, with its arguments.

    Raises RuntimeError where DATALOADER_FALLBACK_EN=0 forbids that. Source: Gaudi's Media Loader.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not settings.get(_FALLBACK):
            raise RuntimeError(
                f"HabanaDataLoader: {_FALLBACK}=0 forbids PyTorch's data loader, and a software device has no decoder "
                "of images to use instead. Leave it unset."
            )
        super().__init__(*args, **kwargs)
