"""Nine small programs, one for each form that a recorded graph may have. Each takes the number of its turn."""

import torch
from torch import nn
from torch.nn import functional as F

HPU = torch.device("hpu")


def _seeded(module):
    torch.manual_seed(0)
    return module.to(HPU)


def training_step():
    """Forward, backward and a fused optimizer."""
    model = _seeded(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    x, target = torch.ones(4, 8, device=HPU), torch.zeros(4, dtype=torch.int64, device=HPU)

    def step(turn):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def attention():
    """Products, a softmax and views."""
    q, k, v = torch.ones(3, 2, 4, 6, 8, device=HPU).unbind()
    return lambda turn: F.softmax(q @ k.transpose(-1, -2) * 0.3, -1) @ v


def convolution():
    """Convolution and normalisation in channels_last."""
    model = _seeded(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())).eval().requires_grad_(False)
    x = torch.ones(2, 3, 8, 8, device=HPU)
    return lambda turn: model(x)


def padded_indices():
    """An index of -1, which reads zeros."""
    table, indices = torch.ones(5, 4, device=HPU), torch.tensor([0, 3, -1], device=HPU)
    return lambda turn: F.embedding(indices, table) + 1


def dropout():
    """Random numbers: the seed is an input."""
    torch.manual_seed(0)
    x = torch.ones(4, 8, device=HPU)
    return lambda turn: F.dropout(x, 0.5)


def in_place_views():
    """Views that are written in place."""
    x = torch.zeros(4, 8, device=HPU)

    def step(turn):
        x[:, ::2].add_(1)
        x.t()[0].mul_(2)
        return x

    return step


def changing_numbers():
    """A number of Python that is another one in each turn: an input of the recipe."""
    x = torch.ones(4, 8, device=HPU)
    return lambda turn: F.layer_norm(x * (0.1 * turn), (8,))


def autocast():
    """Casts to bfloat16."""
    model = _seeded(nn.Linear(8, 4)).requires_grad_(False)
    x = torch.ones(4, 8, device=HPU)
    return torch.autocast("hpu", torch.bfloat16)(lambda turn: F.gelu(model(x)))


def integers():
    """int64, a comparison, and a cumulative sum."""
    x = torch.arange(12, device=HPU).view(3, 4)
    return lambda turn: ((x * 3).cumsum(1) > 10).sum()


# The first one has the device's start in it, and is therefore a small one.
PROGRAMS = (
    integers,
    training_step,
    attention,
    convolution,
    padded_indices,
    dropout,
    in_place_views,
    changing_numbers,
    autocast,
)
