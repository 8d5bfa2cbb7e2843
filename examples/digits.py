"""A convolutional network on scikit-learn's handwritten digits.

python -m examples.digits                  on the hpu device
python -m examples.digits --device cpu     the same on PyTorch's CPU device
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from tqdm import tqdm

import habana_frameworks.torch.core as htcore

CLASSES = 10


def load_data(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels for training, then for testing: 1,797 images of 8 x 8 pixels, one fifth of them for testing."""
    digits = load_digits()
    split = train_test_split(digits.images, digits.target, test_size=0.2, random_state=seed, stratify=digits.target)
    train_images, test_images, train_labels, test_labels = (torch.from_numpy(part) for part in split)
    return _as_input(train_images), train_labels.long(), _as_input(test_images), test_labels.long()


def _as_input(images: Tensor) -> Tensor:
    return images.float().div(16).unsqueeze(1)


def make_model() -> nn.Module:
    """Three convolutions with batch norm, then two linear layers with dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 128),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(128, CLASSES),
    )


def batches(images: Tensor, labels: Tensor, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """The images once, in random order, in full batches."""
    order = torch.randperm(len(images), generator=generator)
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        yield images[chosen], labels[chosen]


class Trainer:
    """Model, optimizer and data on one device."""

    def __init__(self, device: str = "hpu", batch_size: int = 64, lr: float = 1e-3, seed: int = 0, fused: bool = False):
        torch.manual_seed(seed)
        self.device = torch.device(device)
        self.batch_size = batch_size
        self.train_images, self.train_labels, self.test_images, self.test_labels = load_data(seed)
        self.order = torch.Generator().manual_seed(seed)
        self.model = make_model().to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, fused=True if fused else None)

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in one pass over the training images."""
        return len(self.train_images) // self.batch_size

    def train_epoch(self, bar: tqdm[Any] | None = None) -> tuple[float, float]:
        """One pass over the training images. Returns the mean loss and the seconds per step."""
        self.model.train()
        total = torch.zeros((), device=self.device)
        start = time.perf_counter()
        for images, labels in batches(self.train_images, self.train_labels, self.batch_size, self.order):
            images = images.to(self.device, non_blocking=True)
            labels = labels.to(self.device, non_blocking=True)

            self.optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(self.model(images), labels)
            loss.backward()
            htcore.mark_step()
            self.optimizer.step()
            htcore.mark_step()

            total += loss.detach()  # read once an epoch, so that the host does not wait in each step
            if bar is not None:
                bar.update()
        mean_loss = total.item() / self.steps_per_epoch
        return mean_loss, (time.perf_counter() - start) / self.steps_per_epoch

    @torch.no_grad()
    def accuracy(self) -> float:
        """The share of test images that the model gets right."""
        self.model.eval()
        answers = self.model(self.test_images.to(self.device)).argmax(dim=1)
        return (answers == self.test_labels.to(self.device)).float().mean().item()


def main() -> None:
    """Train and test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="hpu")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fused", action="store_true", help="fused AdamW on every device; on hpu it is the default")
    args = parser.parse_args()

    trainer = Trainer(args.device, args.batch_size, args.lr, args.seed, args.fused)
    loss = float("nan")
    with tqdm(
        total=args.epochs * trainer.steps_per_epoch, desc=f"digits on {args.device}", unit="step", mininterval=1
    ) as bar:
        for _ in range(args.epochs):
            loss, _ = trainer.train_epoch(bar)
            bar.set_postfix(loss=f"{loss:.4f}")
    print(f"digits on {args.device}: loss {loss:.4f}, test accuracy {trainer.accuracy():.2%}")


if __name__ == "__main__":
    main()
