"""A model drawn by a number: a random stack of linear, convolution, norm and attention layers.

No three models can stand for all that people write. The same number draws the same model, on any machine.
"""

import random
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.models import Workload

_CLASSES = 10
_ACTIVATIONS: tuple[type[nn.Module], ...] = (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh)


class _Attention(nn.Module):
    """Self-attention with a norm ahead of it, beside a shortcut."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        return x + self.attention(normed, normed, normed, need_weights=False)[0]


class _Tokens(nn.Module):
    """Makes a sequence of an image: a token for each of its places."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).transpose(1, 2)


class _Scores(nn.Module):
    """Scores of classes for the mean of a sequence."""

    def __init__(self, width: int):
        super().__init__()
        self.head = nn.Linear(width, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.mean(1))


Layers = list[tuple[str, Callable[[], nn.Module]]]


def _convolution(draw: random.Random, before: int, width: int, stride: int) -> Layers:
    """A convolution, a norm or none, an activation."""
    kernel, activation = draw.choice((1, 3, 3, 5)), draw.choice(_ACTIVATIONS)
    name = f"conv {before}-{width} {kernel}x{kernel}/{stride}"
    layers: Layers = [(name, lambda: nn.Conv2d(before, width, kernel, stride, kernel // 2))]
    norm = draw.choice(("batch norm", "group norm", ""))
    if norm == "batch norm":
        layers.append((norm, lambda: nn.BatchNorm2d(width)))
    elif norm:
        layers.append((norm, lambda: nn.GroupNorm(4, width)))
    return [*layers, (activation.__name__.lower(), activation)]


def _feed_forward(draw: random.Random, before: int, width: int) -> Layers:
    activation = draw.choice(_ACTIVATIONS)
    return [(f"linear {before}-{width}", lambda: nn.Linear(before, width)), (activation.__name__.lower(), activation)]


def drawn(seed: int) -> Workload:
    """The workload of a number. Its title lists the layers."""
    draw = random.Random(seed)
    batch, size, width = draw.choice((4, 8, 16, 32)), draw.choice((8, 12, 16)), draw.choice((16, 32, 48))
    layers: Layers = []
    before, left = 3, size
    for _ in range(draw.randint(1, 4)):
        stride = 2 if left > 4 and draw.random() < 0.6 else 1
        layers += _convolution(draw, before, width, stride)
        before, left = width, -(-left // stride)
        width = draw.choice((width, 2 * width)) if width < 128 else width
    layers.append(("tokens", _Tokens))
    width = before
    for _ in range(draw.randint(2, 6)):
        kind = draw.choice(("linear", "norm", "attention"))
        if kind == "linear":
            width = draw.choice((32, 64, 128))
            layers += _feed_forward(draw, before, width)
            before = width
        elif kind == "norm":
            layers.append(("layer norm", lambda width=before: nn.LayerNorm(width)))  # type: ignore[misc]
        else:
            heads = draw.choice((1, 2, 4))
            layers.append((f"attention {heads}", lambda width=before, heads=heads: _Attention(width, heads)))  # type: ignore[misc]
    layers.append(("scores", lambda width=before: _Scores(width)))  # type: ignore[misc]

    def data() -> tuple[Tensor, Tensor]:
        numbers = torch.Generator().manual_seed(seed)
        images = torch.randn(batch, 3, size, size, generator=numbers)
        return images, torch.randint(_CLASSES, (batch,), generator=numbers)

    title = f"drawn by {seed}, batch {batch} x 3 x {size} x {size}: {', '.join(name for name, _ in layers)}"
    return Workload(title, lambda: nn.Sequential(*(make() for _, make in layers)), data)
