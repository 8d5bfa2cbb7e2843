"""Optimizers: the fused form by default, without waits. Numbers of each form are compared by the conformance suite."""

import pytest
import torch

from .support import make, train_step

FUSED = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad]
OTHERS = [
    torch.optim.RMSprop, torch.optim.Adadelta, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam,
    torch.optim.Rprop, torch.optim.ASGD,
]  # fmt: skip


# ASGD reads its step count on the host, in PyTorch's own code.
@pytest.mark.parametrize("kind", [kind for kind in FUSED + OTHERS if kind is not torch.optim.ASGD])
def test_a_step_does_not_wait(kind, gate):
    model, optimizer, x, target = make("mlp", kind)
    for _ in range(2):
        train_step(model, optimizer, x, target)
    torch.hpu.synchronize()
    with gate:
        optimizer.step()
        optimizer.zero_grad()


def test_schedulers_change_the_rate_without_new_kernels(counted):
    model, optimizer, x, target = make("mlp")
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(2):
        train_step(model, optimizer, x, target)
        schedule.step()
    with counted() as work:
        train_step(model, optimizer, x, target)
        schedule.step()
        train_step(model, optimizer, x, target)
    assert work["ops_waited"] == 0


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
    xs = [torch.full((n,), n + 1.0) for n in (2, 3)]
    scalars = torch.tensor([0.5, 2.0])
    on_hpu = [x.to("hpu") for x in xs]
    expected = getattr(torch, name)(xs, xs, xs, scalars)
    torch.testing.assert_close([x.cpu() for x in getattr(torch, name)(on_hpu, on_hpu, on_hpu, scalars)], expected)
    getattr(torch, name + "_")(on_hpu, [x + 0 for x in on_hpu], [x + 0 for x in on_hpu], scalars)
    torch.testing.assert_close([x.cpu() for x in on_hpu], expected)
