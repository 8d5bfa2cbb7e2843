"""torchviz draws models on hpu, the casts of mixed precision among their nodes."""

import re

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated:DeprecationWarning")
torchviz = pytest.importorskip("torchviz", reason="torchviz is not installed; it is one of the dev extra")


def nodes_and_edges(drawing):
    """Titles of nodes by number, and pairs of numbers. A node's second line on is a tensor's name and size."""
    nodes = dict(re.findall(r'^\t(\d+) \[label="?([^"\]]*)"?', drawing.source, re.MULTILINE))
    return nodes, re.findall(r"^\t(\d+) -> (\d+)", drawing.source, re.MULTILINE)


def reached(nodes, edges, start, goal):
    """Whether an arrow's way leads from a node titled `start` to one titled `goal`."""
    seen, front = set(), [number for number, title in nodes.items() if title.split("\n")[0].strip() == start]
    assert front, (start, nodes)
    while front:
        number = front.pop()
        if number not in seen:
            seen.add(number)
            front += [end for begin, end in edges if begin == number]
    return goal in {nodes[number] for number in seen}


def test_the_graph_is_that_of_the_cpu(hpu):
    def drawn(device):
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
        y = model(torch.ones(2, 8, device=device))
        loss = torch.nn.functional.mse_loss(y, torch.zeros_like(y))
        nodes, edges = nodes_and_edges(torchviz.make_dot(loss, params=dict(model.named_parameters())))
        return sorted(nodes.values()), sorted((nodes[begin], nodes[end]) for begin, end in edges)

    assert drawn("hpu") == drawn("cpu")
    assert "MseLossBackward0" in drawn("hpu")[0]


def test_casts_of_mixed_precision_are_nodes(hpu):
    """A linear layer in bfloat16 and a loss in float32: parameters and the result are cast, and the casts are drawn."""
    model = torch.nn.Linear(8, 4).to("hpu")
    with torch.autocast("hpu", dtype=torch.bfloat16):
        y = model(torch.ones(2, 8, device="hpu"))
    assert y.dtype == torch.bfloat16
    loss = torch.nn.functional.mse_loss(y.float(), torch.zeros(2, 4, device="hpu"))
    nodes, edges = nodes_and_edges(torchviz.make_dot(loss, params=dict(model.named_parameters())))
    casts = [title for title in nodes.values() if title == "ToCopyBackward0"]
    assert len(casts) == 3  # weight, bias and the result; the input needs no gradient
    for name in ("weight", "bias"):
        assert reached(nodes, edges, name, "ToCopyBackward0")
        assert reached(nodes, edges, name, "MseLossBackward0")
