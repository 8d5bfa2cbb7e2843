"""Graphs for training: make_graphed_callables, ModuleCacher, whole steps."""

import inspect
import logging

import pytest
import torch
from torch import nn

from tests.hpu.support import MODELS, capture, loss_of, make, train_step

make_graphed, ModuleCacher = torch.hpu.make_graphed_callables, torch.hpu.ModuleCacher


def net(dropout=0.0):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 3)).to("hpu")


def data(n, batch=4):
    torch.manual_seed(9)
    return [(torch.randn(batch, 6).to("hpu"), torch.randn(batch, 3).to("hpu")) for _ in range(n)]


def train(model, pairs, accumulate=1):
    """Losses, final parameters and buffers; gradients are summed over `accumulate` batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for i, (x, y) in enumerate(pairs):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        losses.append(loss.item())
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return losses, [t.tolist() for t in model.state_dict().values()]


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_module_trains_as_it_would_without(dropout, accumulate, cached, counted):
    reference, graphed = net(dropout), net(dropout)
    pairs = [pair for k in (4, 2, 4, 3, 2, 4) for pair in data(1, k)] if cached else data(6)
    torch.manual_seed(4)
    expected = train(reference, pairs, accumulate)
    graphed = ModuleCacher(4)(graphed) if cached else make_graphed(graphed, (data(1)[0][0],))
    torch.manual_seed(4)
    with counted() if cached else counted(graph_replays=12):
        assert train(graphed, pairs, accumulate) == expected
    if cached:
        counts = {"calls": 6, "hits": 3, "captures": 3, "evictions": 0, "ungraphed": 0, "graphs": 3}
        assert graphed.graph_statistics() == counts


@pytest.mark.parametrize("make", [ModuleCacher(), lambda model: make_graphed(model, (torch.ones(2, 6, device="hpu"),))])
def test_hooks_of_parameters_are_called_once_in_each_backward(make):
    model = nn.Linear(6, 3).to("hpu")
    calls = []

    def hook(grad):
        calls.append(0)
        return grad * 2

    model.weight.register_hook(hook)
    graphed = make(model)
    for k in range(1, 4):
        model.weight.grad = None
        graphed(torch.ones(2, 6, device="hpu")).sum().backward()
        assert model.weight.grad[0, 0].item() == 4.0
        assert len(calls) == k


def test_functions_and_tuples():
    def work(x, y):
        return x * y, (x + y).sum()

    model = net()
    x, y = torch.ones(4, 6, device="hpu", requires_grad=True), torch.full((4, 6), 2.0, device="hpu")
    graphed, graphed_model = make_graphed((work, model), ((x, y), (x,)))
    assert graphed_model is model
    given = torch.full((4, 6), 3.0, device="hpu", requires_grad=True)
    product, total = graphed(given, y)
    assert product.tolist() == [[6.0] * 6] * 4
    assert total.item() == 120
    (product.sum() * 2 + total).backward()
    assert given.grad.tolist() == [[5.0] * 6] * 4
    other = torch.full((4, 6), 1.0, device="hpu", requires_grad=True)
    graphed(other, y)[1].backward()
    assert other.grad.tolist() == [[1.0] * 6] * 4
    assert given.grad.tolist() == [[5.0] * 6] * 4  # not the graph's own memory


def test_the_other_mode_runs_without_a_graph(counted):
    graphed = make_graphed(net(0.5), (data(1)[0][0],))
    graphed.eval()
    x = data(1)[0][0]
    with counted(graph_replays=0):
        assert torch.equal(graphed(x), graphed(x))
        assert graphed(x[:2]).shape == (2, 3)
    graphed.train()
    with counted(graph_replays=1):
        graphed(x)


def test_wrong_samples():
    model = net()
    hooked = net()
    x = data(1)[0][0]
    hooked[0].register_forward_hook(lambda *_: None)
    graphed = make_graphed(net(), (x,))
    for use, error, text in (
        (lambda: make_graphed(model, x), TypeError, r"must be a tuple of tensors, got Tensor; write \(x,\)"),
        (lambda: make_graphed(model, (x, {"x": x})), TypeError, "tuple of tensors on hpu, but element 1 is dict"),
        (lambda: make_graphed(model, (x.cpu(),)), TypeError, "element 0 is a tensor on cpu"),
        (lambda: make_graphed((model, model), ((x,),)), TypeError, "sample arguments of each of the 2 callables"),
        (lambda: make_graphed(3, (x,)), TypeError, "expected a module or function, got int"),
        (lambda: make_graphed(hooked, (x,)), RuntimeError, "module '0' has hooks"),
        (lambda: graphed(x[:2]), RuntimeError, r"input 0 was captured with shape \(4, 6\)"),
        (lambda: graphed(x, x.clone()), RuntimeError, "captured with 1 tensors and is called with 2"),
        (lambda: ModuleCacher(0), ValueError, "max_graphs must be at least 1"),
        (lambda: ModuleCacher()(len), TypeError, r"expected a torch\.nn\.Module"),
    ):
        with pytest.raises(error, match=text):
            use()


def test_unused_inputs():
    def work(x, y):
        return x * 2

    x, y = (torch.ones(3, device="hpu", requires_grad=True) for _ in range(2))
    with pytest.raises(RuntimeError, match="not have been used"):
        make_graphed(work, (x, y))
    assert not torch.hpu.is_current_stream_capturing()
    graphed = make_graphed(work, (x, y), allow_unused_input=True)
    graphed(x, y).sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    assert y.grad is None


def test_the_signature_stays():
    """Trainers and generation choose arguments by it."""

    class Model(nn.Module):
        def forward(self, x, labels=None):
            return x

    model = ModuleCacher()(model=Model().to("hpu"))
    assert list(inspect.signature(model.forward).parameters) == ["x", "labels"]


@pytest.mark.parametrize("use_lfu", [False, True])
def test_eviction(use_lfu):
    graphed = ModuleCacher(2)(net(), use_lfu=use_lfu)
    for batch in (2, 2, 2, 3, 3, 4, 2):
        graphed(data(1, batch)[0][0])
    found = graphed.graph_statistics()
    # The least recently used is that of size 2, the least frequently used that of size 3.
    assert (found["captures"], found["evictions"], found["graphs"]) == ((3, 1, 2) if use_lfu else (4, 2, 2))


def test_without_gradients_or_in_eval_the_cacher_stands_aside(counted):
    graphed = ModuleCacher()(net())
    x = data(1)[0][0]
    with counted(graphs_captured=0):
        with torch.no_grad():
            graphed(x)
        graphed.eval()(x)
        graphed.train()
        graphed.capture_start()
        graphed(x)
        graphed.capture_end()
    graphed(x)
    assert graphed.graph_statistics()["ungraphed"] == 3
    assert graphed.graph_statistics()["captures"] == 1


def test_a_copy_leaves_the_model_alone(caplog):
    model = net()
    graphed = ModuleCacher(3)(model, inplace=False, verbose=True, log_frequency=2, have_grad_accumulation=True)
    x = data(1)[0][0]
    assert graphed is not model
    assert next(graphed.parameters()) is next(model.parameters())
    with caplog.at_level(logging.INFO, "openhpu.graphs"):
        for i in range(2):
            graphed.set_iteration_count(i)
            graphed(x)
    assert graphed.graph_statistics()["captures"] == 2
    assert "Sequential: {'calls': 2" in caplog.text
    assert not hasattr(model, "graph_statistics")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_whole_step(name, optimizer):
    model, opt, x, y = make(name, optimizer)
    expected = [train_step(model, opt, x.roll(i, 0), y.roll(i, 0)).item() for i in range(6)]
    model, opt, x, y = make(name, optimizer)
    losses = [train_step(model, opt, x, y).item()]  # makes the optimizer's state
    opt.zero_grad(set_to_none=True)
    static_x, static_y = x.roll(1, 0), y.roll(1, 0)

    def step():
        loss = loss_of(model, static_x, static_y)
        loss.backward()
        opt.step()
        return loss

    g, loss = capture(step)
    losses.append(loss.item())
    for i in range(2, 6):
        static_x.copy_(x.roll(i, 0))
        static_y.copy_(y.roll(i, 0))
        g.replay()
        losses.append(loss.item())
    assert losses == expected


def test_memory_of_training_graphs_comes_back(level):
    graphed = ModuleCacher(2)(net())
    for batch in (2, 3, 4):
        graphed(data(1, batch)[0][0]).sum().backward()
