"""Steps of optimizers, against the formulas in float64."""

import pytest
import torch

from tests.hpu.support import close

ops = torch.ops.hpu


def lists(count, positive=()):
    shapes = [(5,), (2, 3)]
    return [[torch.rand(s) if i in positive else torch.randn(s) for s in shapes] for i in range(count)]


@pytest.mark.parametrize("lazy", [False, True])
def test_adamw(everywhere, lazy):
    grads, weights, first, second = given = lists(4, positive=(3,))
    decay = 0.98 if lazy else torch.tensor([0.98])
    more = (torch.tensor([-0.1]), 0.9, 0.99, 1e-6, decay) + (() if lazy else (True,))

    def work(given, *more):
        copies = [[t.clone() for t in tensors] for tensors in given]
        ops.optimizer_adamw(*copies, *more)
        return copies

    _, w, m, v = everywhere(work, given, *more)
    g = [t.double() for t in grads]
    m64 = [0.9 * a.double() + 0.1 * b for a, b in zip(first, g, strict=True)]
    v64 = [0.99 * a.double() + 0.01 * b * b for a, b in zip(second, g, strict=True)]
    w64 = [0.98 * a.double() - 0.1 * b / (c.sqrt() + 1e-6) for a, b, c in zip(weights, m64, v64, strict=True)]
    close([m, v, w], [m64, v64, w64])
