"""Optimizers: the fused form by default, without waits. Numbers of each form are compared by the conformance suite."""

import pytest
import torch

from .support import agree, make, train_step

# ASGD reads its step count on the host, in PyTorch's own code.
KINDS = ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_does_not_wait(kind, gate):
    model, optimizer, x, target = make("mlp", getattr(torch.optim, kind))
    for _ in range(2):
        train_step(model, optimizer, x, target)
    torch.hpu.synchronize()
    with gate:
        optimizer.param_groups[0]["lr"] /= 2  # as schedules do
        optimizer.step()
        optimizer.zero_grad()


def test_a_rate_as_a_tensor_and_capturable():
    model, optimizer, x, target = make("mlp", torch.optim.Adam, capturable=True)
    train_step(model, optimizer, x, target)
    model = torch.nn.Linear(2, 2).to("hpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1, device="hpu"))
    model(torch.ones(1, 2, device="hpu")).sum().backward()
    before = model.weight.detach().clone()
    optimizer.step()
    torch.testing.assert_close(model.weight.detach(), before - 0.1)


@pytest.mark.parametrize("name", ["_foreach_addcmul", "_foreach_addcdiv"])
def test_numbers_of_lists_may_lie_on_the_cpu(name):
    xs, scalars = [torch.full((n,), n + 1.0) for n in (2, 3)], torch.tensor([0.5, 2.0])
    agree(lambda *xs: getattr(torch, name)(xs, xs, xs, scalars), *xs, exact=False)
    agree(
        lambda *xs: getattr(torch, name + "_")(xs, [x + 0 for x in xs], [x + 0 for x in xs], scalars), *xs, exact=False
    )
