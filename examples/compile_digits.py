"""Training with torch.compile on scikit-learn's digits: the shape of PyTorch's MNIST example.

python -m examples.compile_digits

Exits with 1 if the model did not learn.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

import openhpu
from examples import digits

BATCH = 64
MIN_ACCURACY = 0.9


def batches(images: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Whole batches, in a new order each time."""
    order = torch.randperm(len(images), device=images.device)
    for rows in order.split(BATCH):
        if len(rows) == BATCH:
            yield images[rows], labels[rows]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.compile_digits", description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args(argv)

    torch.manual_seed(0)
    images, labels, test_images, test_labels = (part.to("hpu") for part in digits.load_data())
    model = digits.make_model().to("hpu")
    compiled = torch.compile(model, backend="hpu_backend")  # forward and backward; the optimizer as usual
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    openhpu.reset_counters()
    start = time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        for data, target in batches(images, labels):
            optimizer.zero_grad()
            loss = F.cross_entropy(compiled(data), target)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
    counters = openhpu.counters()
    print(
        f"{time.perf_counter() - start:.1f} s; {counters['graph_replays']} graphs run; "
        f"operators: {counters['ops_in_recipes']} in recipes, {counters['ops_node_by_node']} one by one"
    )
    model.eval()
    with torch.no_grad():
        accuracy = (model(test_images).argmax(1) == test_labels).float().mean().item()
    print(f"accuracy {accuracy:.3f}")
    return 0 if accuracy >= MIN_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
