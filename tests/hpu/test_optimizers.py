"""Optimizers: the fused form by default, without waits. Numbers of each form are compared by the conformance suite."""

import pytest
import torch

from .support import agree, make

# ASGD reads its step count on the host, in PyTorch's own code.
KINDS = ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_does_not_wait(kind, gate):
    _, optimizer, *_ = make("mlp", getattr(torch.optim, kind), steps=2)
    with gate:
        optimizer.param_groups[0]["lr"] /= 2  # as schedules do
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("name", ["_foreach_addcmul", "_foreach_addcdiv"])
def test_numbers_of_lists_may_lie_on_the_cpu(name):
    xs = [torch.full((n,), n + 1.0) for n in (2, 3)]
    scalars = torch.tensor([0.5, 2.0])
    agree(lambda *xs: getattr(torch, name)(xs, xs, xs, scalars), *xs, exact=False)
    agree(
        lambda *xs: getattr(torch, name + "_")(xs, [x + 0 for x in xs], [x + 0 for x in xs], scalars), *xs, exact=False
    )
