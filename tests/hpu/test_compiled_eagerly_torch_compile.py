"""torch.compile and HPU graphs in eager mode through compiled recipes. Few compilations, for which the calls wait."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import BaseTorchDispatchMode

from tests.hpu.support import capture, compiled, loss_of, make, to_cpu

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def step(model, optimizer, x, target):
    optimizer.zero_grad()
    loss = loss_of(model, x, target)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    optimizer.step()
    return loss.detach()


def trained(counted, wrap_model=lambda model: model, graphed=False):
    """The losses of five steps and what the model is then, and the counters; `graphed`: later steps are replays."""
    model, *rest = make("convnet", torch.optim.SGD, momentum=0.9)
    do = partial(step, wrap_model(nn.Sequential(model, nn.Dropout(0.5))), *rest)
    torch.manual_seed(3)
    with counted() as moved:
        losses = [do().item() for _ in range(1 if graphed else 5)]
        if graphed:
            graph, loss = capture(do)
            losses.append(loss.item())
            for _ in range(3):
                graph.replay()
                losses.append(loss.item())
    return (losses, to_cpu(list(model.state_dict().values()))), moved


def test_training_is_that_of_eager_mode(counted):
    """A model compiled by torch.compile, and an HPU graph of the whole step: the same losses, dropout included."""
    expected, _ = trained(counted)
    found, moved = trained(counted, partial(compiled, fullgraph=True))
    assert moved["recipes_compiled"] >= 2
    assert moved["ops_in_recipes"] > 0
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    found, moved = trained(counted, graphed=True)
    assert moved["recipes_compiled"] == 1
    assert moved["ops_in_recipes"] > 0
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_wrapped_functions_use_recipes_on_other_memory(counted):
    def work(x, total):
        total += x.sum()
        return x * 2 + 1, x[1:]

    graphed = torch.hpu.wrap_in_hpu_graph_func(work, disable_tensor_cache=True)
    kept = []
    for k in range(4):
        x, total = torch.full((3,), float(k), device="hpu"), torch.tensor(10.0, device="hpu")
        with counted() as moved:
            kept.append(graphed(x, total))
            torch.hpu.synchronize()
        assert k == 0 or (moved["recipe_hits"], moved["ops_node_by_node"]) == (1, 0)
        assert total.item() == 10 + 3 * k
    assert [(y.tolist(), rest.tolist()) for y, rest in kept] == [([2 * k + 1] * 3, [k] * 2) for k in range(4)]


@pytest.mark.parametrize("static", [False, True])
def test_one_recipe_for_all_sizes_or_one_for_each(static, counted):
    def work(x):
        return ((x * (2 + static)).exp() + x.shape[0]).sum(0)

    sizes = (3, 5, 8, 13, 5 if static else 21)
    f = compiled(work, dynamic=True, options={"force_static_compile": static})
    made = []
    for n in sizes:
        x = torch.linspace(0, 1, n * 2).view(n, 2)
        given = x.to("hpu")
        torch.hpu.synchronize()
        with counted() as moved:
            results = f(given), f(given)
            torch.hpu.synchronize()
        made.append(moved["recipes_compiled"])
        for result in results:
            torch.testing.assert_close(result.cpu(), work(x))
    # What differs by size is known after three.
    assert made[2:] == [1, 1, 0] if static else made[3:] == [0, 0]


def test_weights_as_constants(compiled_graphs, counted):
    """A recipe that holds the weights; after a write to one, a recipe that takes them all."""
    model, _, x, _ = make("convnet")
    reference = make("convnet", device="cpu")[0].eval()
    f = compiled(model.eval(), options={"use_graph_freezing": True})

    @torch.no_grad()
    def check(k):
        given = x * k
        torch.hpu.synchronize()
        with counted() as moved:
            result = f(given)
            torch.hpu.synchronize()
        torch.testing.assert_close(result.cpu(), reference(given.cpu()), rtol=1e-3, atol=1e-4)
        return moved

    check(1.0)
    check(2.0)
    moved = check(-1.0)
    assert moved["graph_replays"] == 1
    assert moved["ops_node_by_node"] == moved["recipes_compiled"] == 0
    (graph,) = compiled_graphs
    captured = graph.clusters[0].captures[None].graph
    assert captured.describe()["constants"] > 0
    with torch.no_grad():
        for m in (model, reference):
            m.head.weight.mul_(2)
    check(1.0)
    assert captured.describe()["constants"] == 0
    moved = check(0.5)
    assert moved["graph_replays"] == 1
    assert moved["ops_node_by_node"] == moved["recipes_compiled"] == 0


def test_numbers_under_a_dispatch_mode():
    """The same graph with another number: why it is new is told from there."""
    x = torch.arange(5, device="hpu", dtype=torch.int32)
    for number in (2.5, 3.5, 4.5):
        with BaseTorchDispatchMode():  # as AOTAutograd's, which looks at the operators of a first call
            graph, y = capture(lambda number=number: (torch.rsub(x, 2.5), torch.remainder(x, number)))
        graph.replay()
        assert y[1].tolist() == [k % number for k in range(5)]
