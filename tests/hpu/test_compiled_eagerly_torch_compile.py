"""torch.compile and HPU graphs in eager mode through compiled recipes. Few compilations, for which the calls wait."""

import contextlib

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.hpu.support import to_cpu

pytestmark = pytest.mark.usefixtures("compiled_graphs")


class Block(nn.Module):
    """Convolution, batch norm, attention, dropout."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.parts, self.head = nn.Linear(8, 24), nn.Linear(8, 5)

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
        q, k, v = self.parts(y).view(x.shape[0], -1, 3, 2, 4).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        y = y + mixed.transpose(1, 2).reshape(y.shape)
        return self.head(nn.functional.dropout(y.mean(1), 0.5, self.training))


def setting(device="hpu"):
    torch.manual_seed(0)
    model = Block().to(device)
    x, target = torch.randn(4, 3, 6, 6, device="cpu").to(device), torch.arange(4).to(device)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), x, target


def step(model, optimizer, x, target):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    optimizer.step()
    return loss.detach()


def graphed(work):
    """`work` as an HPU graph: the first call runs it, the second captures it, later ones replay it."""
    graph, results = torch.hpu.HPUGraph(), []

    def call(*args):
        if len(results) == 2:
            graph.replay()
        else:
            with torch.hpu.graph(graph) if results else contextlib.nullcontext():
                results.append(work(*args))
        return results[-1]

    return call


def losses(wrap_model, wrap_step, calls, after=lambda k: None):
    model, *rest = setting()
    call, work = wrap_model(model), wrap_step(step)
    torch.manual_seed(3)
    out = []
    for k in range(calls):
        out.append(work(call, *rest).item())
        after(k)
    return out, to_cpu(list(model.state_dict().values()))


def test_training_is_that_of_eager_mode(counted):
    """A model compiled by torch.compile, and an HPU graph of the whole step: the same losses, dropout included."""
    expected = losses(lambda m: m, lambda s: s, 5)
    with counted() as moved:
        compiled = losses(lambda m: torch.compile(m, backend="hpu_backend", fullgraph=True), lambda s: s, 5)
    assert moved["recipes_compiled"] >= 2 and moved["ops_in_recipes"] > 0
    torch.testing.assert_close(compiled, expected, rtol=1e-3, atol=1e-4)
    with counted() as moved:
        whole = losses(lambda m: m, graphed, 5)
    assert moved["recipes_compiled"] == 1 and moved["ops_in_recipes"] > 0
    torch.testing.assert_close(whole, expected, rtol=1e-3, atol=1e-4)


def test_later_calls_are_recipes_only(counted):
    def work(x, total):
        total += x.sum()
        y = (x * 2).tanh()
        return y, y.t(), x[1:], (x @ x.t()).softmax(-1)

    f = torch.compile(work, backend="hpu_backend")
    for k in range(3):
        x_cpu, total_cpu = torch.full((3, 4), k / 4), torch.tensor(1.0)
        x, total = x_cpu.to("hpu"), total_cpu.to("hpu")
        expected = work(x_cpu, total_cpu)
        torch.hpu.synchronize()
        with counted() as moved:
            actual = f(x, total)
            torch.hpu.synchronize()
        torch.testing.assert_close(to_cpu(actual), expected)
        assert total.item() == total_cpu.item()
        assert actual[1].data_ptr() == actual[0].data_ptr() and actual[2].data_ptr() == x[1:].data_ptr()
    assert moved["recipe_hits"] == moved["graph_replays"] == 1
    assert moved["ops_node_by_node"] == moved["ops_submitted"] == moved["ops_recorded"] == 0


def compiled_for(sizes, factor, counted, **options):
    """Recipes made for each of the sizes, of which each is right in the call that compiles and in the next."""
    f = torch.compile(
        lambda x: ((x * factor).exp() + x.shape[0]).sum(0), backend="hpu_backend", dynamic=True, **options
    )
    compiled = []
    for n in sizes:
        x = torch.linspace(0, 1, n * 2).view(n, 2)
        given = x.to("hpu")
        torch.hpu.synchronize()
        with counted() as moved:
            results = f(given), f(given)
            torch.hpu.synchronize()
        compiled.append(moved["recipes_compiled"])
        for result in results:
            torch.testing.assert_close(result.cpu(), ((x * factor).exp() + n).sum(0))
    return compiled


def test_one_recipe_for_all_sizes(counted):
    compiled = compiled_for((3, 5, 8, 13, 21), 2, counted)
    assert compiled[3:] == [0, 0]  # what differs by size is known by then


def test_weights_as_constants(compiled_graphs, counted):
    """A recipe that holds the weights; after a write to one, a recipe that takes them all."""
    model, _, x, _ = setting()
    reference = setting("cpu")[0].eval()
    f = torch.compile(model.eval(), backend="hpu_backend", options={"use_graph_freezing": True})

    def check(k):
        given = x * k
        torch.hpu.synchronize()
        with torch.no_grad(), counted() as moved:
            result = f(given)
            torch.hpu.synchronize()
        with torch.no_grad():
            torch.testing.assert_close(result.cpu(), reference(given.cpu()), rtol=1e-3, atol=1e-4)
        return moved

    check(1.0), check(2.0)
    moved = check(-1.0)
    assert moved["graph_replays"] == 1 and moved["ops_node_by_node"] == moved["recipes_compiled"] == 0
    (graph,) = compiled_graphs
    captured = graph.clusters[0].captures[None].graph
    assert captured.describe()["constants"] > 0
    with torch.no_grad():
        for m in (model, reference):
            m.head.weight.mul_(2)
    check(1.0)
    assert captured.describe()["constants"] == 0
    moved = check(0.5)
    assert moved["graph_replays"] == 1 and moved["ops_node_by_node"] == moved["recipes_compiled"] == 0


def test_a_recipe_for_each_size(counted):
    compiled = compiled_for((3, 5, 8, 13, 5), 3, counted, options={"force_static_compile": True})
    assert compiled[-3:] == [1, 1, 0]


class Through(TorchDispatchMode):
    """As AOTAutograd's, which looks at the operators of a first call."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        return function(*arguments, **(options or {}))


def test_numbers_under_a_dispatch_mode():
    """The same graph with another number: why it is new is told from there."""
    x = torch.arange(5, device="hpu", dtype=torch.int32)
    for number in (2.5, 3.5, 4.5):
        graph = torch.hpu.HPUGraph()
        with Through():
            graph.capture_begin()
            y = torch.rsub(x, 2.5), torch.remainder(x, number)
            graph.capture_end()
        graph.replay()
        assert y[1].tolist() == [k % number for k in range(5)]
