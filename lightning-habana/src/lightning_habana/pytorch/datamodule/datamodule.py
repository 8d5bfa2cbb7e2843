"""Images of folders for Trainer, decoded by Gaudi's data loader."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from lightning_habana import roots

# Of ImageNet, per channel.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class HPUDataModule(roots.pytorch().LightningDataModule):  # type: ignore[misc]
    """Loaders over `train_dir` and `val_dir`, each with a folder for every class.

    Args: `num_workers`: threads that decode. `normalize`: subtract ImageNet's mean and divide by its deviation behind
    the given transforms. `seed`: of shuffling and of random transforms. `batch_size`: of each device.
    `train_transforms`, `val_transforms`: torchvision's, as a list or as one; the usual ones for 224 x 224 pixels if
    None. `pin_memory`, `drop_last`: as PyTorch's loader has them; validation drops nothing. `shuffle`: the training's
    images. `distributed`: each process gets a part of the images, where Trainer does not see to that itself
    (`use_distributed_sampler=False`). Needs torchvision.

    Raises MisconfigurationException for a folder that is not given or not there, at `setup`. Source:
    lightning_habana's data module, without its limits to ImageNet, to eight workers and to unshuffled, pinned batches.
    """

    def __init__(
        self,
        train_dir: str | Path | None = None,
        val_dir: str | Path | None = None,
        num_workers: int = 8,
        normalize: bool = False,
        seed: int = 42,
        batch_size: int = 32,
        train_transforms: Sequence[Any] | Callable[[Any], Any] | None = None,
        val_transforms: Sequence[Any] | Callable[[Any], Any] | None = None,
        pin_memory: bool = True,
        shuffle: bool = False,
        drop_last: bool = True,
        distributed: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.train_dir = train_dir
        self.val_dir = val_dir
        self.num_workers = num_workers
        self.batch_size = batch_size
        self.normalize = normalize
        self.seed = seed
        self.train_transforms = train_transforms
        self.val_transforms = val_transforms
        self.pin_memory = pin_memory
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.distributed = distributed
        self.dataset_train: Any = None
        self.dataset_val: Any = None

    def setup(self, stage: str | None = None) -> None:
        """Find the images."""
        from torchvision import transforms as t

        if self.dataset_train is None:
            usual = [t.RandomResizedCrop(224), t.RandomHorizontalFlip()]
            self.dataset_train = self._images("train_dir", self.train_transforms, usual)
        if self.dataset_val is None:
            usual = [t.Resize(256), t.CenterCrop(224)]
            self.dataset_val = self._images("val_dir", self.val_transforms, usual)

    def train_dataloader(self) -> Any:
        """Of `train_dir`."""
        return self._loader(self.dataset_train, self.shuffle, self.drop_last)

    def val_dataloader(self) -> Any:
        """Of `val_dir`."""
        return self._loader(self.dataset_val, shuffle=False, drop_last=False)

    test_dataloader = predict_dataloader = val_dataloader

    def _images(self, name: str, given: Any, usual: list[Any]) -> Any:
        """The images of a folder, with the transforms that are given, or else the usual ones as normalized tensors."""
        from torchvision import datasets, transforms as t

        given = [*usual, t.ToTensor(), t.Normalize(_MEAN, _STD)] if given is None else given
        steps = list(given) if isinstance(given, Sequence) else list(getattr(given, "transforms", [given]))
        if self.normalize and not isinstance(steps[-1], t.Normalize):
            steps.append(t.Normalize(_MEAN, _STD))
        return datasets.ImageFolder(self._folder(name), t.Compose(steps))

    def _folder(self, name: str) -> Path:
        given = getattr(self, name)
        folder = Path(given or "")
        shown = given and str(given)
        if not given or not folder.is_dir():
            raise roots.MisconfigurationException(
                f"HPUDataModule: {name}={shown!r} is not a folder; expected one with a folder for each class"
            )
        return folder

    def _loader(self, dataset: Any, shuffle: bool, drop_last: bool) -> Any:
        from torch.utils.data.distributed import DistributedSampler

        from habana_dataloader import HabanaDataLoader

        if dataset is None:
            raise roots.MisconfigurationException("HPUDataModule: call setup() before asking for its loaders")
        sampler: Any = None
        if self.distributed and torch.distributed.is_initialized():
            sampler = DistributedSampler(dataset, shuffle=shuffle, seed=self.seed, drop_last=drop_last)
        return HabanaDataLoader(
            dataset,
            batch_size=self.batch_size,
            shuffle=shuffle and sampler is None,
            sampler=sampler,
            num_workers=self.num_workers,
            pin_memory=self.pin_memory,
            drop_last=drop_last,
            generator=torch.Generator().manual_seed(self.seed),
        )
