"""Training with graphs: a whole step (forward, loss, backward, optimizer) captured once and replayed; or torch.compile.

python -m examples.graph_training            one graph for the whole step
python -m examples.graph_training --cacher   forward and backward as graphs (ModuleCacher), the optimizer as usual
python -m examples.graph_training --compile  forward and backward by torch.compile, the optimizer as usual

Exits with 1 if the model did not learn.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

import habana_frameworks.torch as ht
import openhpu
from examples import digits

BATCH = 64
MIN_ACCURACY = 0.9
Step = Callable[[Tensor, Tensor], Tensor]


def whole_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> Step:
    """A step on batches like the given one, as one graph."""
    step = usual(model, optimizer)
    static_images = images.clone()
    static_labels = labels.clone()
    step(static_images, static_labels)  # makes the optimizer's state, which the graph then updates in place
    graph = ht.hpu.HPUGraph()
    with ht.hpu.graph(graph):
        static_loss = step(static_images, static_labels)

    def replay(images: Tensor, labels: Tensor) -> Tensor:
        static_images.copy_(images)
        static_labels.copy_(labels)
        graph.replay()
        return static_loss

    return replay


def usual(model: Callable[[Tensor], Tensor], optimizer: torch.optim.Optimizer) -> Step:
    """A step as most scripts have it."""

    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def accuracy_of(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.graph_training", description=__doc__)
    parser.add_argument("--cacher", action="store_true", help="forward and backward as graphs, not the whole step")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the model")
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args(argv)

    torch.manual_seed(0)
    images, labels, test_images, test_labels = (part.to("hpu") for part in digits.load_data())
    model = digits.make_model().to("hpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    if options.cacher:
        step = usual(ht.hpu.ModuleCacher(max_graphs=4)(model=model, inplace=True), optimizer)
    elif options.compile:
        step = usual(torch.compile(model, backend="hpu_backend"), optimizer)
    else:
        step = whole_step(model, optimizer, images[:BATCH], labels[:BATCH])
    openhpu.reset_counters()
    start = time.perf_counter()
    steps = 0
    for epoch in range(options.epochs):
        order = torch.randperm(len(images), device="hpu")
        for rows in order.split(BATCH):
            if len(rows) == BATCH:
                loss = step(images[rows], labels[rows])
                steps += 1
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
    seconds = time.perf_counter() - start
    counters = openhpu.counters()
    print(
        f"{steps} steps, {seconds / steps * 1e3:.2f} ms each; {counters['graph_replays']} replays; "
        f"operators: {counters['ops_in_recipes']} in recipes, {counters['ops_node_by_node']} one by one"
    )
    accuracy = accuracy_of(model, test_images, test_labels)
    print(f"accuracy {accuracy:.3f}")
    return 0 if accuracy >= MIN_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
