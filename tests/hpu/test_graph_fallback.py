"""What no graph can hold runs without one: one warning with its line, and nothing is left of the attempt."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn

from tests.hpu.support import line, memory_in_use

wrap, wrap_function = torch.hpu.wrap_in_hpu_graph, torch.hpu.wrap_in_hpu_graph_func
make_graphed, ModuleCacher = torch.hpu.make_graphed_callables, torch.hpu.ModuleCacher

READ = line() + 14


class Reads(nn.Module):
    """Changes a buffer, draws random numbers, and then decides by a value on the host."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.steps.add_(1)
        x = x + torch.rand_like(x) + torch.rand(()).item() + random.random() + float(np.random.rand())
        if (x > -1).all():
            x = self.linear(x)
        self.steps.add_(10)
        return nn.functional.dropout(x, 0.5)


def seed():
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)


def states():
    states = torch.get_rng_state().tolist(), torch.hpu.get_rng_state().tolist()
    return *states, random.getstate(), np.random.rand(3).tolist()


def same(plain, graphed, *inputs):
    """Both give the same values, and leave the same state behind."""
    seed()
    expected = [plain(x).tolist() for x in inputs]
    after = states()
    seed()
    assert [graphed(x).tolist() for x in inputs] == expected
    assert states() == after
    assert graphed.steps.tolist() == plain.steps.tolist()
    assert not torch.hpu.is_current_stream_capturing()


@pytest.mark.parametrize("way", ["wrap_in_hpu_graph", "make_graphed_callables"])
def test_a_module_that_reads_runs_as_it_is(way, level):
    plain = Reads().to("hpu")
    graphed = copy.deepcopy(plain)
    x, y = torch.ones(2, 4, device="hpu"), torch.ones(3, 4, device="hpu")
    training = way == "make_graphed_callables"
    with torch.set_grad_enabled(training), pytest.warns(RuntimeWarning, match="runs without a graph") as warned:
        assert (make_graphed(graphed, (x,)) if training else wrap(graphed)) is graphed
        same(plain, graphed, x, x, y, x)
    (text,) = [str(one.message) for one in warned]
    assert text.startswith(f"{way}: Reads.forward runs without a graph, as it is: aten::item is not supported")
    assert f'test_graph_fallback.py", line {READ}.' in text
    if training:
        graphed(x).sum().backward()
        assert graphed.linear.weight.grad is not None


def test_what_can_be_captured_still_is(counted):
    def work(x):
        if x.shape[0] == 2:
            x.sum().item()
        return x * 2

    graphed = wrap_function(work)
    x, y = torch.ones(2, device="hpu"), torch.ones(3, device="hpu")
    with pytest.warns(RuntimeWarning, match="runs without a graph"):
        graphed(x)
    with counted(graphs_captured=1, graph_replays=3):
        for _ in range(3):
            assert graphed(x).tolist() == [2.0] * 2
            assert graphed(y).tolist() == [2.0] * 3


def test_the_modules_own_errors_are_its_own(level):
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            self.steps.add_(1)
            raise KeyError("mine")

    module = wrap(Fails().to("hpu"))
    with pytest.raises(KeyError, match="mine"):
        module(torch.ones(2, device="hpu"))
    assert module.calls == 1
    assert not torch.hpu.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="must match the size"):
        wrap_function(lambda x: x + torch.ones(3, device="hpu"))(torch.ones(2, device="hpu"))
    with pytest.raises(KeyError):
        make_graphed(Fails().to("hpu"), (torch.ones(2, device="hpu"),))


def test_a_result_on_the_host():
    graphed = wrap_function(lambda x: (x + 1, torch.zeros(2)))
    x = torch.ones(2, device="hpu")
    with pytest.warns(RuntimeWarning, match="a result is on cpu"):
        first = graphed(x)
    assert first[0].tolist() == [2.0, 2.0]
    assert graphed(x)[1].tolist() == [0.0, 0.0]


def test_nothing_is_kept_of_a_capture_that_failed(level):
    def work(x):
        kept.append(x.exp())
        y = x.cos().sum()
        return y if y > 0 else -y

    kept = []
    x = torch.zeros(1 << 16, device="hpu")
    work(x)
    kept.clear()
    before = memory_in_use()
    graphed = wrap_function(work)
    with pytest.warns(RuntimeWarning):
        result = graphed(x)
    assert result.item() == 1 << 16
    assert [t.tolist()[:2] for t in kept] == [[1.0, 1.0]] * 2  # what the attempt left to the script is whole
    del result, kept[:]
    assert memory_in_use() == before


class ReadsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 if grad.sum().item() > 0 else grad


@pytest.mark.parametrize("cacher", [False, True])
def test_a_backward_that_reads(level, cacher):
    model = nn.Linear(3, 3).to("hpu")
    forward = model.forward
    model.forward = lambda x: ReadsInBackward.apply(forward(x)) + torch.rand(()).item()
    x = torch.ones(2, 3, device="hpu")
    seed()
    expected = model(x)
    expected.sum().backward()
    grad = model.weight.grad
    model.weight.grad = None
    model.bias.grad = None
    seed()
    with pytest.warns(RuntimeWarning, match="aten::item"):
        graphed = ModuleCacher(2)(model) if cacher else make_graphed(model, (x,))
        result = graphed(x)
    assert result.tolist() == expected.tolist()
    result.sum().backward()
    assert model.weight.grad.tolist() == grad.tolist()
    if cacher:
        graphed(x)
        assert graphed.graph_statistics()["ungraphed"] == 2


def test_in_a_dry_run_by_hand_it_stays_an_error():
    x, graph = torch.ones(2, device="hpu"), torch.hpu.HPUGraph()
    graph.capture_begin(dry_run=True)
    x.add_(1)
    with pytest.raises(RuntimeError, match="aten::item is not supported"):
        x.sum().item()
    assert not torch.hpu.is_current_stream_capturing()
    assert x.tolist() == [1.0, 1.0]
