"""Writes into slices of one tensor, as one concatenation."""

import torch
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.passes.joined_slices import joined_slices

scatter, cat = torch.ops.aten.slice_scatter.default, torch.ops.aten.cat.default


def run(program, *inputs):
    """Numbers of slice_scatter and cat after the pass; the results are compared."""
    graph = make_fx(functionalize(program), tracing_mode="fake")(*inputs)
    joined_slices(graph)
    graph.graph.lint()
    graph.recompile()
    torch.testing.assert_close(graph(*[x.clone() for x in inputs]), program(*[x.clone() for x in inputs]))
    targets = [node.target for node in graph.graph.nodes]
    return targets.count(scatter), targets.count(cat)


def test_a_bucket_that_is_filled():
    def program(bucket, *grads):
        for i, grad in enumerate(grads):
            bucket[4 * i : 4 * i + 4].copy_(grad)
        bucket.mul_(0.5)
        return [bucket.clone(), *(bucket[4 * i : 4 * i + 4] + 1 for i in range(len(grads)))]

    assert run(program, torch.zeros(16), *(torch.randn(4) for _ in range(4))) == (0, 1)


def test_what_was_not_written_stays():
    def program(x, a, b, c):
        x[2:4] = a
        x[8:10] = b
        x[5:6] = c
        return x + 0

    assert run(program, torch.randn(12), torch.randn(2), torch.randn(2), torch.randn(1)) == (0, 1)


def test_a_later_write_covers_an_earlier_one():
    def program(x, a):
        x[2:4] = a
        x[0:6] = 3
        x[6:8] = a
        x[7:9] = 1  # a part of the one before
        x[9:10] = 2
        x[10:11] = 4
        return x + 0

    run(program, torch.randn(12), torch.randn(2))


def test_reads_in_between_see_what_was_written_until_then():
    def program(x, a):
        x[0:3] = a
        first = x[0:3] * 2
        mixed = x[1:5] * 2
        untouched = x[6:9] + 1
        x[0:3] = a + 1
        x[3:6] = a + 2
        x[6:9] = a + 3
        return [x + 0, first, mixed, untouched, x[0:3] * 1]

    run(program, torch.randn(9), torch.randn(3))


def test_along_another_dimension():
    def program(x, a):
        for i in range(4):
            x[:, 2 * i : 2 * i + 2] = a + i
        return x * 2

    scattered, joined = run(program, torch.randn(3, 8), torch.randn(3, 2))
    assert scattered == 0 < joined


def test_few_writes_are_left_alone():
    def program(x, a):
        x[0:3] = a
        return x * 2

    assert run(program, torch.randn(9), torch.randn(3)) == (1, 0)
