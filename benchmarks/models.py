"""The models of the benchmarks, and a training step on a device."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import habana_frameworks.torch.core as htcore
from examples.gpt_chars import GPT
from openhpu import hpu

CHARACTERS = 100


def mlp() -> nn.Module:
    """64-128-128-10."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


def wide_mlp() -> nn.Module:
    """4 layers of 1024: nearly all of a step is products."""
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.ReLU())))


def convnet() -> nn.Module:
    """Five convolutions with batch norm, for 3 x 32 x 32."""
    layers: list[nn.Module] = []
    channels = 3
    for width, stride in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        layers += [nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


class _Residual(nn.Module):
    """Two convolutions with batch norm beside a shortcut, as in ResNet-18."""

    def __init__(self, before: int, width: int, stride: int):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.path(x) + self.shortcut(x))


def resnet() -> nn.Module:
    """ResNet-18's layers at a quarter of its width, for 3 x 32 x 32."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    before = 16
    for width, stride in ((16, 1), (32, 2), (64, 2), (128, 2)):
        layers += [_Residual(before, width, stride), _Residual(width, width, 1)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


class Bert(nn.Module):
    """BERT's encoder: 4 layers, d 256, 4 heads, feed-forward 1024, no dropout; scores of every token."""

    def __init__(self, words: int = 1000, context: int = 64, width: int = 256):
        super().__init__()
        self.word, self.position = nn.Embedding(words, width), nn.Embedding(context, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, words: Tensor) -> Tensor:
        positions = torch.arange(words.shape[1], device=words.device)
        return self.head(self.layers(self.norm(self.word(words) + self.position(positions))))  # type: ignore[no-any-return]


class ViT(nn.Module):
    """A vision transformer: 6 layers, d 384, 6 heads, patches of 4 x 4 of 3 x 32 x 32 and a token for the class."""

    def __init__(self, width: int = 384):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, 65, width))
        layer = nn.TransformerEncoderLayer(
            width, 6, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.first.expand(len(images), -1, -1), tokens], 1) + self.position
        return self.head(self.norm(self.layers(tokens)[:, 0]))  # type: ignore[no-any-return]


def _labels(number: int, classes: int) -> Tensor:
    return torch.randint(classes, (number,), generator=torch.Generator().manual_seed(1), device="cpu")


def _random(*sizes: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(2), device="cpu")


def _text(words: int, *sizes: int) -> tuple[Tensor, Tensor]:
    """Words, and those that follow each."""
    text = torch.randint(words, sizes, generator=torch.Generator().manual_seed(3), device="cpu")
    return text, text.roll(-1, 1)


@dataclass(frozen=True)
class Workload:
    """A model with its input, target and loss."""

    title: str
    model: Callable[[], nn.Module]
    batch: Callable[[], tuple[Tensor, Tensor]]

    def training(self, device: str, **optimizer: Any) -> "Training":
        """Set the model up on a device, the same on each."""
        torch.manual_seed(0)
        model = self.model().to(device)
        inputs, target = (tensor.to(device) for tensor in self.batch())
        return Training(model, inputs, target, torch.optim.AdamW(model.parameters(), lr=1e-3, **optimizer))


class Training:
    """A model on a device, which can make steps."""

    def __init__(self, model: nn.Module, inputs: Tensor, target: Tensor, optimizer: torch.optim.Optimizer):
        self.model, self.inputs, self.target, self.optimizer = model, inputs, target, optimizer

    def step(self) -> Tensor:
        """One training step, as a script for Gaudi has it; the loss, on the device."""
        self.optimizer.zero_grad(set_to_none=True)
        out = self.model(self.inputs)
        if self.target.is_floating_point():
            loss = F.mse_loss(out, self.target)
        else:
            loss = F.cross_entropy(out.flatten(0, -2), self.target.flatten())
        loss.backward()
        self.optimizer.step()
        htcore.mark_step()
        return loss.detach()


class Graphed:
    """A training step as an HPU graph: the first call makes a step, the second captures one, later ones replay it."""

    def __init__(self, training: Training):
        self.training, self.graph = training, hpu.HPUGraph()
        self._losses: list[Tensor] = []

    def __call__(self) -> Tensor:
        """The loss; of a graph the same tensor each time."""
        if len(self._losses) == 2:
            self.graph.replay()
        elif self._losses:
            self.training.optimizer.zero_grad(set_to_none=True)
            with hpu.graph(self.graph):
                self._losses.append(self.training.step())
        else:
            self._losses.append(self.training.step())
        return self._losses[-1]


MLP = Workload("MLP 64-128-128-10, batch 32", mlp, lambda: (_random(32, 64), _labels(32, 10)))
WIDE_MLP = Workload("MLP of 4 x 1024, batch 256", wide_mlp, lambda: (_random(256, 1024), _random(256, 1024).roll(1, 0)))
GPT_SMALL = Workload("GPT 4 layers, d 128, batch 8 x 64", lambda: GPT(CHARACTERS), lambda: _text(CHARACTERS, 8, 64))
GPT_WIDE = Workload(
    "GPT of d 512, 4 layers, batch 4 x 128, vocabulary 4096",
    lambda: GPT(4096, context=128, width=512, heads=8),
    lambda: _text(4096, 4, 128),
)
VIT = Workload("ViT 6 layers, d 384, batch 16 x 65", ViT, lambda: (_random(16, 3, 32, 32), _labels(16, 10)))
CONVNET = Workload(
    "ConvNet 5 conv+bn, batch 32 x 3 x 32 x 32", convnet, lambda: (_random(32, 3, 32, 32), _labels(32, 10))
)
RESNET = Workload("ResNet-18's layers, batch 8 x 3 x 32 x 32", resnet, lambda: (_random(8, 3, 32, 32), _labels(8, 10)))
BERT = Workload("BERT 4 layers, d 256, batch 4 x 64", Bert, lambda: _text(1000, 4, 64))
WORKLOADS = (MLP, WIDE_MLP, GPT_SMALL, GPT_WIDE, VIT, CONVNET, RESNET, BERT)
