"""int64 as on a Gaudi in recipes, whose generated code wraps and counts (docs/int64.md)."""

import torch

import habana_frameworks.torch.core as htcore
import openhpu
from openhpu import events


def program(x, y):
    a = x * x + y
    y += 2**30
    total = a.sum()
    hit = a > 0
    return a, total, y.cumsum(0), torch.where(hit, a, -a), (a * 3).float()


def wrap(t):
    return t.to(torch.int32).to(t.dtype)


def expected(x, y):
    a = wrap(wrap(x * x) + y)
    y.copy_(wrap(y + 2**30))
    return a, wrap(a.sum()), wrap(y.cumsum(0)), torch.where(a > 0, a, -a), wrap(a * 3).float()


def test_a_recipe_wraps_as_operators_do(narrow, counted):
    seen = []
    subscription = events.subscribe("int64_overflow", seen.append)
    try:
        for _ in range(3):
            x, y = torch.tensor([2**20 + 1, 7, -(2**17)]), torch.tensor([2**31 - 1, 2**30, 3])
            given = x.to("hpu"), y.to("hpu")
            torch.hpu.synchronize()
            with counted() as difference:
                results = program(*given)
                htcore.mark_step()
                results = [r.cpu() for r in results]
            for one, other in zip(results, expected(x, y), strict=True):
                assert torch.equal(one, other)
            assert torch.equal(given[1].cpu(), y)
    finally:
        events.unsubscribe(subscription)
    assert difference["ops_in_recipes"] > 5 and difference["int64_overflows"] > 0
    assert {event.site[0] for event in seen} == {__file__}
    assert {"aten::mul", "aten::add_"} <= {event.params["op"] for event in seen}


def test_recipes_are_exact_by_default(counted):
    x, y = torch.tensor([2**20 + 1, 7]), torch.tensor([2**31 - 1, 2**30])
    given = x.to("hpu"), y.to("hpu")
    with counted() as difference:
        results = program(*given)
        htcore.mark_step()
        for one, other in zip(results, program(x, y), strict=True):
            assert torch.equal(one.cpu(), other)
    assert difference["int64_overflows"] == 0
    assert openhpu.counters()["ops_in_recipes"] > 0
