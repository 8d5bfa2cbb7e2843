"""Inference with HPU Graphs: the same classifier with and without, on scikit-learn's handwritten digits.

python -m examples.graph_inference            a module wrapped by wrap_in_hpu_graph
python -m examples.graph_inference --manual   captured and replayed by hand

Exits with 1 if the two disagree.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import habana_frameworks.torch as ht
import openhpu
from examples import digits

BATCH = 16


def by_hand(model: torch.nn.Module, sample: Tensor) -> Callable[[Tensor], Tensor]:
    """`model` for batches like `sample`: captured once, then replayed on the captured memory."""
    static_input = sample.clone()
    graph = ht.hpu.HPUGraph()
    with ht.hpu.graph(graph):
        static_output = model(static_input)

    def predict(batch: Tensor) -> Tensor:
        static_input.copy_(batch)
        graph.replay()
        return static_output

    return predict


def classify(predict: Callable[[Tensor], Tensor], batches: Sequence[Tensor]) -> tuple[Tensor, float]:
    """The predicted class of every image, and the seconds per batch."""
    start = time.perf_counter()
    found = [predict(batch).argmax(1) for batch in batches]
    ht.hpu.synchronize()
    seconds = (time.perf_counter() - start) / len(batches)
    return torch.cat(found).cpu(), seconds


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.graph_inference", description=__doc__)
    parser.add_argument("--manual", action="store_true", help="capture and replay by hand")
    parser.add_argument("--repeat", type=int, default=20, help="passes over the images")
    options = parser.parse_args(argv)

    torch.manual_seed(0)
    images = digits.load_data()[2]
    model = digits.make_model().eval().to("hpu")
    batches = [part.to("hpu") for part in images.split(BATCH) if len(part) == BATCH] * options.repeat
    with torch.no_grad():
        classify(model, batches[:4])
        expected, plain_s = classify(model, batches)
        graphed = by_hand(model, batches[0]) if options.manual else ht.hpu.wrap_in_hpu_graph(model)
        classify(graphed, batches[:4])
        openhpu.wait_for_recipes()
        openhpu.reset_counters()
        found, graph_s = classify(graphed, batches)
    counters = openhpu.counters()
    print(
        f"{len(batches)} batches of {BATCH}: {plain_s * 1e6:,.0f} us each without a graph, {graph_s * 1e6:,.0f} us with"
    )
    print(
        f"{counters['graph_replays']} replays; operators of graphs: {counters['ops_in_recipes']} in recipes, "
        f"{counters['ops_node_by_node']} one by one"
    )
    agree = bool((found == expected).float().mean() > 0.99)
    print("the predictions agree" if agree else "the predictions DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
