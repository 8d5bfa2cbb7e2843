"""Random programs: what a graph replays is what the same lines do without one, random numbers included.

FUZZ=nightly (`make fuzz`) draws 1,000 new ones.
"""

import os

import torch
from hypothesis import given, settings, strategies as st

from tests.fuzz.test_programs import COMMON, NIGHTLY

GRAPHS = int(os.environ.get("FUZZ_GRAPHS", 1000 if NIGHTLY else 100))
SHAPE = (3, 4)


def _binary(f):
    return lambda pool, i, j: pool.append(f(pool[i % len(pool)], pool[j % len(pool)]))


def _unary(f):
    return lambda pool, i, j: pool.append(f(pool[i % len(pool)]))


def _drop(pool, i, j):
    if len(pool) > 3:
        del pool[i % (len(pool) - 2) + 2]


def _pair(pool, i, j):
    values, _ = pool[i % len(pool)].sort(dim=1)
    low, high = torch.aminmax(pool[j % len(pool)], dim=1, keepdim=True)
    pool.extend([values, (values - low).clamp(-3, 3), high.expand(SHAPE)])


def _square(f):
    """A view of the whole, written through."""

    def apply(pool, i, j):
        target = pool[i % len(pool)]
        if target._is_view() and 0 in target.stride():
            return  # memory that several elements share can't be written
        f(target, pool[j % len(pool)])

    return apply


# Every value is of SHAPE; results are kept small, so that nothing overflows however long the program.
OPERATIONS = {
    "add": _binary(lambda a, b: (a + b).clamp(-4, 4)),
    "mul": _binary(lambda a, b: (a * b).clamp(-4, 4)),
    "sub_number": _unary(lambda a: a - 0.75),
    "tanh": _unary(torch.tanh),
    "where": _binary(lambda a, b: torch.where(a > b, a, b - 1)),
    "matmul": _binary(lambda a, b: (a @ b.t() @ a).clamp(-4, 4)),
    "transposed": _unary(lambda a: a.t().reshape(SHAPE)),
    "flipped_view": _unary(lambda a: a.as_strided(SHAPE, a.stride(), a.storage_offset())),
    "expanded": _unary(lambda a: a[:1].expand(SHAPE)),
    "cat": _binary(lambda a, b: torch.cat([a[:, :2], b[:, 2:]], 1)),
    "mean": _unary(lambda a: a.mean(0, keepdim=True) + torch.zeros_like(a)),
    "two_results": _pair,
    "add_": _square(lambda a, b: a.add_(b.clone(), alpha=0.5).clamp_(-4, 4)),
    "row_": _square(lambda a, b: a[1].copy_(b[0])),
    "columns_": _square(lambda a, b: a[:, ::2].mul_(0.5)),
    "zero_": _square(lambda a, b: a[2].zero_()),
    "fill": _unary(lambda a: torch.full_like(a, 0.25)),
    "rand": _unary(lambda a: torch.rand_like(a)),
    "dropout": _unary(lambda a: torch.nn.functional.dropout(a, 0.3)),
    "normal_": _square(lambda a, b: a.normal_(0, 0.5)),
    "perm": _unary(lambda a: a[:, torch.randperm(4, device=a.device)]),
    "drop": _drop,
}

step = st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 20), st.integers(0, 20))


def run(program, pool):
    for name, i, j in program:
        OPERATIONS[name](pool, i, j)
    return pool


def start(k):
    torch.manual_seed(k)
    return [torch.randn(SHAPE).to("hpu"), torch.randn(SHAPE).to("hpu")]


@settings(max_examples=GRAPHS, **COMMON)
@given(st.lists(step, min_size=1, max_size=25), st.booleans())
def test_replays_equal_ungraphed_runs(program, keep_all):
    # Without a graph: the program three times on the same two inputs, which it may change in place.
    inputs = start(1)
    torch.manual_seed(2)
    expected = []
    for _ in range(3):
        pool = run(program, list(inputs))
        kept = pool if keep_all else pool[-1:]
        expected.append([t.tolist() for t in (*inputs, *kept)])
    after = torch.rand(2, device="hpu").tolist()

    inputs = start(1)
    torch.manual_seed(2)
    g = torch.hpu.HPUGraph()
    with torch.hpu.graph(g):
        pool = run(program, list(inputs))
        kept = pool if keep_all else pool[-1:]
        del pool
    seen = []
    for k in range(3):
        if k:
            g.replay()
        seen.append([t.tolist() for t in (*inputs, *kept)])
    assert seen == expected
    assert torch.rand(2, device="hpu").tolist() == after
