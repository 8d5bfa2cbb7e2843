"""Steps of optimizers, against the formulas in float64."""

import pytest
import torch

ops = torch.ops.hpu


def lists(count, positive=()):
    torch.manual_seed(0)
    shapes = [(5,), (2, 3)]
    return [[torch.rand(s) if i in positive else torch.randn(s) for s in shapes] for i in range(count)]


def run(native, operator, given, *more):
    """The lists, copied, after the operator has worked on them on hpu."""

    def work(given, *more):
        copies = [[t.clone() for t in tensors] for tensors in given]
        operator(*copies, *more)
        return copies

    return native(work, given, *more)


def close(actual, expected):
    torch.testing.assert_close([t.double() for t in actual], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lazy", [False, True])
def test_adamw(native, lazy):
    grads, weights, first, second = given = lists(4, positive=(3,))
    decay = 0.98 if lazy else torch.tensor([0.98])
    more = (torch.tensor([-0.1]), 0.9, 0.99, 1e-6, decay) + (() if lazy else (True,))
    _, w, m, v = run(native, ops.optimizer_adamw, given, *more)
    g = [t.double() for t in grads]
    m64 = [0.9 * a.double() + 0.1 * b for a, b in zip(first, g, strict=True)]
    v64 = [0.99 * a.double() + 0.01 * b * b for a, b in zip(second, g, strict=True)]
    close(m, m64)
    close(v, v64)
    close(w, [0.98 * a.double() - 0.1 * b / (c.sqrt() + 1e-6) for a, b, c in zip(weights, m64, v64, strict=True)])


def test_adamw_through_torch_compile_writes_in_place(everywhere):
    given = lists(4, positive=(3,))

    def work(given, step, decay):
        copies = [[t.clone() for t in tensors] for tensors in given]
        ops.optimizer_adamw(*copies, step, 0.9, 0.99, 1e-6, decay, True)
        return copies

    result = everywhere(work, given, torch.tensor([-0.1]), torch.tensor([0.98]))
    assert not torch.equal(result[1][0], given[1][0])


def test_bad_input():
    one = [torch.ones(2, device="hpu")]
    step = torch.ones(1, device="hpu")
    with pytest.raises(RuntimeError, match=r"weight_vec is .*; expected 1 tensors, as many as gradient_vec"):
        ops.optimizer_adamw(one, [], one, one, step, 0.9, 0.9, 1e-6, step, True)
    with pytest.raises(RuntimeError, match=r"neg_step_t is .*; expected one number"):
        ops.optimizer_adamw(one, one, one, one, torch.ones(2, device="hpu"), 0.9, 0.9, 1e-6, step, True)
    with pytest.raises(RuntimeError, match=r"params_momentum_buf_list is .*; expected 2 tensors"):
        ops.optimizer_resource_apply_momentum(one, one, 0.9)
