"""Training with torch.compile on scikit-learn's digits: the shape of PyTorch's MNIST example.

python -m examples.compile_digits            the model compiled, the optimizer as usual
python -m examples.compile_digits --step     the whole training step as one graph (openhpu.compile_step)

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
    order = torch.randperm(len(images))
    for rows in order.split(BATCH):
        if len(rows) == BATCH:
            yield images[rows], labels[rows]


def train(
    options: argparse.Namespace,
    model: torch.nn.Module,
    device: torch.device,
    train_loader: list[tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    epoch: int,
) -> None:
    """One epoch."""
    model.train()
    if not options.step:
        model = torch.compile(model, backend="hpu_backend")  # type: ignore[assignment]

    def train_function(data: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(F.log_softmax(output, dim=1), target)
        loss.backward()
        optimizer.step()
        return loss

    if options.step:
        train_function = openhpu.compile_step(train_function)
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        loss = train_function(data, target)
        if batch_idx % options.log_interval == 0:
            print(f"epoch {epoch} [{batch_idx * len(data)}/{len(train_loader) * BATCH}]\tloss {loss.item():.4f}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.compile_digits", description=__doc__)
    parser.add_argument("--step", action="store_true", help="compile the whole step, not the model")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--log-interval", type=int, default=10)
    options = parser.parse_args(argv)

    torch.manual_seed(0)
    device = torch.device("hpu")
    images, labels, test_images, test_labels = digits.load_data()
    model = digits.make_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    openhpu.reset_counters()
    start = time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        train(options, model, device, list(batches(images, labels)), optimizer, epoch)
    counters = openhpu.counters()
    print(
        f"{time.perf_counter() - start:.1f} s; {counters['graph_replays']} graphs run; "
        f"operators: {counters['ops_in_recipes']} in recipes, {counters['ops_node_by_node']} one by one"
    )
    model.eval()
    with torch.no_grad():
        accuracy = (model(test_images.to(device)).argmax(1).cpu() == test_labels).float().mean().item()
    print(f"accuracy {accuracy:.3f}")
    return 0 if accuracy >= MIN_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
