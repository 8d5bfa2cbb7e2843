"""The model and the data of these examples: scikit-learn's handwritten digits."""

from typing import Any

import torch
import torch.nn.functional as F
from lightning.pytorch import LightningDataModule, LightningModule
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

TRAINING = 1408  # of 1,797 images, in whole batches
PIXELS = 64
CLASSES = 10


class Digits(LightningDataModule):
    """Images as rows of 64 numbers, and their labels."""

    def __init__(self, batch_size: int = 64) -> None:
        super().__init__()
        self.batch_size = batch_size
        data = load_digits()
        self.images = torch.from_numpy(data.data).float() / 16
        self.labels = torch.from_numpy(data.target).long()

    def _loader(self, part: slice, shuffle: bool = False) -> DataLoader[Any]:
        dataset = TensorDataset(self.images[part], self.labels[part])
        return DataLoader(dataset, batch_size=self.batch_size, shuffle=shuffle, drop_last=True)

    def train_dataloader(self) -> DataLoader[Any]:
        """The first 1,408 images, in another order in each epoch."""
        return self._loader(slice(TRAINING), shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        """The others."""
        return self._loader(slice(TRAINING, None))

    test_dataloader = val_dataloader
    predict_dataloader = val_dataloader


class Classifier(LightningModule):
    """Three layers and AdamW; logs loss and accuracy."""

    def __init__(self, lr: float = 3e-3) -> None:
        super().__init__()
        self.lr = lr
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(PIXELS, 128),
            torch.nn.ReLU(),
            torch.nn.Linear(128, 128),
            torch.nn.ReLU(),
            torch.nn.Linear(128, CLASSES),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of (batch, 64) images."""
        return self.layers(images)  # type: ignore[no-any-return]

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        """The loss."""
        images, labels = batch
        loss = F.cross_entropy(self(images), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        """Logs the accuracy."""
        images, labels = batch
        self.log("accuracy", (self(images).argmax(1) == labels).float().mean(), prog_bar=True, sync_dist=True)

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=self.lr)
