"""Indices out of range in recipes of lazy mode: what eager mode gives, counted and reported alike (docs/indices.md)."""

import pytest
import torch
import torch.nn.functional as F

import habana_frameworks.torch.core as htcore
from tests.hpu.support import to_cpu, watched_indices
from tests.indices import gather, index_copy, index_put, index_select, padded

pytestmark = pytest.mark.filterwarnings("ignore:aten::")


def forward(weight, cache, table, token, slot, labels):
    """As of a language model: padding among the tokens, the slots of a cache and the labels."""
    hidden = F.embedding(token, weight) * 2
    cache.index_copy_(0, slot, hidden.detach())
    cache[slot[:2] + 5] = -hidden[:2].detach()
    loss = (table.gather(1, labels) * (labels >= 0)).sum() + hidden.sum()
    return loss, F.one_hot(labels[:, 0], 4).float().sum(0)


def step(*arguments, forward=forward):
    loss, labels = forward(*arguments)
    loss.backward()
    return loss.detach(), labels


def inputs(device):
    generator = torch.Generator().manual_seed(1)
    weight, table = torch.randn(6, 4, generator=generator), torch.randn(4, 5, generator=generator)
    return [weight.to(device).requires_grad_(), torch.zeros(8, 4).to(device), table.to(device).requires_grad_()]


def padded_step(weight, cache, table, token, slot, labels):
    """The same on the CPU, where what is out of range lies in a row more."""
    hidden = padded(index_select)(weight, 0, token) * 2
    cache.copy_(padded(index_copy)(cache, 0, slot, hidden.detach()))
    cache.copy_(padded(index_put)(cache, 0, slot[:2] + 5, -hidden[:2].detach()))
    loss = (padded(gather)(table, 1, labels) * (labels >= 0)).sum() + hidden.sum()
    loss.backward()
    return loss.detach(), padded(index_select)(torch.eye(4), 0, labels[:, 0]).sum(0)


def check(run, calls=4):
    """`run(*arguments)` does what the step on the CPU does, with other padding in each call."""
    given, expected = inputs("hpu"), inputs("cpu")
    for k in range(calls):
        token = torch.tensor([1, -1, 5, 3 + k])  # 6 is out of range
        slot = torch.tensor([k, -1, 7, 2 + 3 * k])
        labels = torch.tensor([[0], [-1], [k], [4]])
        results = run(*given, *(t.to("hpu") for t in (token, slot, labels)))
        wanted = padded_step(*expected, token, slot, labels)
        torch.testing.assert_close(to_cpu([*results, *given]), to_cpu([*wanted, *expected]))
        for actual, value in zip(given[::2], expected[::2], strict=True):
            torch.testing.assert_close(actual.grad.cpu(), value.grad)
            actual.grad = value.grad = None


def test_a_step_with_padding_is_one_recipe(counted):
    def run(*arguments):
        results = step(*arguments)
        htcore.mark_step()
        return results

    check(run, calls=2)
    with counted(ops_node_by_node=0, ops_waited=0, graphs_cut=0) as work, watched_indices() as watched:
        check(run)
    assert work["recipe_hits"] == work["graphs_flushed"] > 0
    assert watched.counted > 0


def test_they_are_counted_and_reported_with_their_line(counted):
    x, index = torch.ones(5, 3, device="hpu"), torch.tensor([-1, 7, 1, -1, -3], device="hpu")

    def work(n):
        y = x.index_select(0, index) + n
        x[index[:1] + 9] = x[0]  # of a number PyTorch fills from 2.15 on
        htcore.mark_step()
        return y

    for n in (1.0, 2.0):
        work(n)
    with counted(recipe_hits=2, ops_node_by_node=0), watched_indices() as watched:
        for n in (3.0, 4.0):
            assert work(n)[:, 0].tolist() == [n, n, n + 1, n, n]
    first = work.__code__.co_firstlineno
    assert {(e.params["op"], *e.site) for e in watched.events} == {
        ("aten::index_select", __file__, first + 1),
        ("aten::index_put_", __file__, first + 2),
    }
    assert watched.counted == sum(e.params["indices"] for e in watched.events) == 10
    assert sum(e.params["padding"] for e in watched.events) == 4


def test_sizes_that_change_are_one_recipe(counted):
    def work(n):
        x = torch.arange(float(n)).to("hpu")
        y = x.index_select(0, torch.tensor([-1, n, n - 1], device="hpu")) + x.gather(
            0, torch.tensor([0, n, 1], device="hpu")
        )
        x.index_add_(0, torch.tensor([n, 0, -1], device="hpu"), y + 1)
        htcore.mark_step()
        return y.tolist(), x.tolist()

    for n in range(4, 9):
        work(n)
    with counted(recipes_compiled=0):
        for n in range(20, 24):
            y, x = work(n)
            assert y == [0, 0, n]
            assert x == [1, *range(1, n)]
