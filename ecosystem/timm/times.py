"""A training step (AdamW) of some architectures, in lazy mode and on the CPU."""

from collections.abc import Callable
from functools import partial

import torch

from ecosystem import times
from ecosystem.timm.architectures import TIMED
from ecosystem.timm.support import batch, make


def training(name: str, device: str) -> Callable[[], object]:
    """A step of the architecture on the device; 8 images."""
    model = make(name).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    images, classes = (tensor.to(device) for tensor in batch(name, rows=8))

    def step() -> object:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        times.mark(device)
        optimizer.step()
        times.mark(device)
        return loss

    return step


if __name__ == "__main__":
    times.main({name: partial(training, name) for name in TIMED})
