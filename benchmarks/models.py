"""The models of the benchmarks, and a training step on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.gpt_chars import GPT

CHARACTERS = 100


def mlp() -> nn.Module:
    """64-128-128-10."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


def convnet() -> nn.Module:
    """Five convolutions with batch norm, for 3 x 32 x 32."""
    layers: list[nn.Module] = []
    channels = 3
    for width, stride in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        layers += [nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def hundred_linears() -> nn.Module:
    """100 layers of 32 x 32."""
    return nn.Sequential(*(nn.Linear(32, 32) for _ in range(100)))


def _labels(number: int, classes: int) -> Tensor:
    return torch.randint(classes, (number,), generator=torch.Generator().manual_seed(1), device="cpu")


def _random(*sizes: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(2), device="cpu")


def _text() -> Tensor:
    return torch.randint(CHARACTERS, (8, 64), generator=torch.Generator().manual_seed(3), device="cpu")


@dataclass(frozen=True)
class Workload:
    """A model with its input, target and loss."""

    title: str
    model: Callable[[], nn.Module]
    batch: Callable[[], tuple[Tensor, Tensor]]

    def training(self, device: str, **optimizer: Any) -> Training:
        """Set the model up on a device, the same on each."""
        torch.manual_seed(0)
        model = self.model().to(device)
        inputs, target = (tensor.to(device) for tensor in self.batch())
        return Training(model, inputs, target, _optimizer(model, **optimizer))


def _optimizer(model: nn.Module, kind: str = "adamw", **options: Any) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(model.parameters(), lr=1e-3, **options)
    return torch.optim.AdamW(model.parameters(), lr=1e-3, **options)


class Training:
    """A model on a device, which can make steps."""

    def __init__(self, model: nn.Module, inputs: Tensor, target: Tensor, optimizer: torch.optim.Optimizer):
        self.model, self.inputs, self.target, self.optimizer = model, inputs, target, optimizer

    def step(self) -> Tensor:
        """One training step; the loss, on the device."""
        self.optimizer.zero_grad(set_to_none=True)
        out = self.model(self.inputs)
        if self.target.is_floating_point():
            loss = F.mse_loss(out, self.target)
        else:
            loss = F.cross_entropy(out.flatten(0, -2), self.target.flatten())
        loss.backward()
        self.optimizer.step()
        return loss.detach()


MLP = Workload("MLP 64-128-128-10, batch 32", mlp, lambda: (_random(32, 64), _labels(32, 10)))
GPT_SMALL = Workload(
    "GPT 4 layers, d 128, batch 8 x 64", lambda: GPT(CHARACTERS), lambda: (_text(), _text().roll(-1, 1))
)
CONVNET = Workload(
    "ConvNet 5 conv+bn, batch 32 x 3 x 32 x 32", convnet, lambda: (_random(32, 3, 32, 32), _labels(32, 10))
)
LINEAR100 = Workload("100 Linear of 32 x 32, batch 32", hundred_linears, lambda: (_random(32, 32), _random(32, 32)))
WORKLOADS = (MLP, GPT_SMALL, CONVNET, LINEAR100)
