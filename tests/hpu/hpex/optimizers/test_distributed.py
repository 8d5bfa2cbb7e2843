"""hpex.optimizers.distributed.FusedAdamW: steps with gradients that are given."""

import pytest
import torch

from openhpu.interface.hpex.optimizers import FusedAdamW
from openhpu.interface.hpex.optimizers.distributed import FusedAdamW as Given


def parameters():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(size).to("hpu")) for size in ((4, 3), (7,))]


def test_gradients_that_are_given_are_those_of_the_step():
    mine, theirs = parameters(), parameters()
    given, own = Given(mine, lr=0.1), FusedAdamW(theirs, lr=0.1)
    for k in range(3):
        grads = [torch.full_like(p, k + 1.0) for p in mine]
        for p, grad in zip(theirs, grads, strict=True):
            p.grad = grad
        own.step()
        given.step(grads)
    torch.testing.assert_close(mine, theirs)
    assert all(p.grad is None for p in mine)


def test_a_parameter_alone():
    first, second = parameters()
    before = first.detach().clone(), second.detach().clone()
    Given([first, second], lr=0.1).step_param(second, torch.ones_like(second))
    assert torch.equal(first, before[0])
    assert not torch.equal(second, before[1])


def test_a_closure():
    (p, _) = parameters()

    def closure():
        p.grad = torch.ones_like(p)
        return 5

    assert Given([p], lr=0.1).step(closure) == 5


def test_too_few_gradients():
    with pytest.raises(ValueError, match="1 gradients are given; expected 2"):
        Given(parameters()).step([None])
