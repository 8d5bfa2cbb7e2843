"""Gaudi's data loader: images of a folder by threads, all else by PyTorch's."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from openhpu import settings
from openhpu.interface.media import image_folders
from openhpu.interface.names import refused

_FALLBACK = "DATALOADER_FALLBACK_EN"
_MEDIA = "PT_HPU_MEDIA_PIPE"


class HabanaDataLoader(DataLoader[Any]):
    """torch.utils.data.DataLoader, with its arguments.

    Images of torchvision's ImageFolder with the usual transforms (RandomResizedCrop, or Resize and CenterCrop; a flip;
    ToTensor; Normalize) are decoded by `num_workers` threads, with the same values where nothing is random. A first
    Gaudi has no decoder: there, with PT_HPU_MEDIA_PIPE=0 and for anything else it is PyTorch's loader, and
    `fallback_reason` says why. Raises RuntimeError where DATALOADER_FALLBACK_EN=0 forbids that. Source: Gaudi's Media
    Loader, seed 002 (Intel Gaudi Media Loader).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if (why := self.fallback_reason) is not None and not settings.get(_FALLBACK):
            raise RuntimeError(
                f"HabanaDataLoader: {_FALLBACK}=0 forbids PyTorch's data loader, which this one would be: {why}."
            )

    @property
    def fallback_reason(self) -> str | None:
        """Why this is PyTorch's loader; None where threads decode."""
        plan = self._plan()
        return plan if isinstance(plan, str) else None

    def _plan(self) -> image_folders.Plan | str:
        """The loader on threads, or the reason why there is none."""
        if not settings.get(_MEDIA):
            return f"{_MEDIA}=0"
        if settings.get("OPENHPU_GENERATION") == "gaudi":
            return "OPENHPU_GENERATION=gaudi, which has no decoder of images"
        return image_folders.plan_of(self)

    @property
    def dataloader(self) -> "_Batches":
        """The object that makes the batches. Users replace methods of this class by ones that call it."""
        return _Batches(self)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        plan = self._plan()
        return super().__iter__() if isinstance(plan, str) else image_folders.batches(self, plan)


class _Batches:
    aeon = None  # the decoder of a first Gaudi, which is not there

    def __init__(self, loader: HabanaDataLoader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return DataLoader.__len__(self._loader)

    def __iter__(self) -> Iterator[Any]:
        return HabanaDataLoader.__iter__(self._loader)


def refused_aeon(name: str) -> ImportError:
    """The error of a part of a first Gaudi's loader."""
    return refused(
        name,
        "it belongs to the decoder of a first Gaudi (aeon); use habana_dataloader.HabanaDataLoader, which decodes "
        "images of a folder on threads",
    )
