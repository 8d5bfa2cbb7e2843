"""A read waits for the command that made its value, and not for those behind it, unless one of them writes to it."""

import pytest
import torch

import habana_frameworks.torch.core as htcore
from openhpu._machine import usable_cores

from .support import capture, in_threads, make


@pytest.fixture
def busy():
    """Give the device some 10 to 30 ms of kernels that need one thread each; the host takes 2 ms to submit them."""
    x = torch.ones(32_000, device="hpu")

    def submit():
        for _ in range(300):
            x.tanh_()
        htcore.mark_step()

    submit()  # so that its shapes are known
    return submit


def a_sum():
    """10, made by an operator of its own."""
    made = (torch.arange(4.0, device="hpu") + 1).sum()
    htcore.mark_step()
    return made


@pytest.mark.skipif(usable_cores() == 1, reason="on one core commands run where they are submitted")
def test_a_read_does_not_wait_for_commands_behind_its_value(busy):
    def is_early():
        made = a_sum()
        busy()
        assert made.item() == 10
        early = not torch.hpu.current_stream().query()
        torch.hpu.synchronize()
        return early

    assert any(is_early() for _ in range(20))  # a busy machine may keep the host for so long once, not each time


def storage_of(x):
    return torch.empty(0, device="hpu").set_(x.untyped_storage())


def assign(x):
    x.data = torch.full((), 11.0, device="hpu")


def step_of_sgd(x):
    parameter = torch.nn.Parameter(x)
    parameter.grad = torch.full((), -1.0, device="hpu")
    torch.optim.SGD([parameter], lr=1.0).step()


# Each turns the 10 of `a_sum` into 11.
WRITES = {
    "in place": lambda x: x.add_(1),
    "in place, a view": lambda x: x.view(1).add_(1),
    "in place, detached": lambda x: x.detach().add_(1),
    "in place, twice": lambda x: x.add_(2).sub_(1),
    "in place, another thread": lambda x: in_threads(lambda: x.add_(1)),
    "out=": lambda x: torch.add(x, 1, out=x),
    "out=, of others": lambda x: torch.add(torch.full((), 5.0, device="hpu"), 6, out=x),
    "fill_": lambda x: x.fill_(11),
    "zero_": lambda x: x.zero_().add_(11),
    "copy_ from the host": lambda x: x.copy_(torch.tensor(11.0)),
    "copy_ from the device": lambda x: x.copy_(torch.full((), 11.0, device="hpu")),
    "a list": lambda x: torch._foreach_add_([x], 1),
    "an index": lambda x: x.view(1).__setitem__(0, 11.0),
    "index_put_": lambda x: x.view(1).index_put_((torch.tensor([0]).to("hpu"),), torch.tensor([11.0]).to("hpu")),
    "masked_fill_": lambda x: x.masked_fill_(torch.tensor(True, device="hpu"), 11.0),
    "another tensor on the storage": lambda x: storage_of(x).add_(1),
    "the storage": lambda x: x.untyped_storage().copy_(torch.full((), 11.0, device="hpu").untyped_storage()),
    "random": lambda x: x.uniform_(11, 11.0000001),
    "data": assign,
    "after a read": lambda x: (x.item(), x.add_(1)),
    "after a copy": lambda x: (x.cpu(), x.add_(1)),
    "an optimizer": step_of_sgd,
}


@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "recorded"])
@pytest.mark.parametrize("name", WRITES)
def test_a_read_sees_what_was_written_before_it(name, flushed, busy):
    for _ in range(3):  # first its shapes are new, and the host waits
        x = a_sum() if flushed else (torch.arange(4.0, device="hpu") + 1).sum()
        busy()
        WRITES[name](x)
        assert x.item() == pytest.approx(11)


def test_a_read_sees_what_a_replay_wrote(busy):
    given = torch.zeros(4, device="hpu")
    (given + 1).sum()
    graph, result = capture(lambda: (given + 1).sum())
    for i in range(3):
        busy()
        given.fill_(i)
        graph.replay()
        assert result.item() == 4 * (i + 1)


def test_a_write_at_the_end_of_a_piece_is_seen():
    """The forward pass is handed over when the first operator of the backward pass is recorded; here that writes."""
    losses = {}
    for read in (True, False):
        model, optimizer, x, target = make("mlp")
        losses[read] = []
        for _ in range(12):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), target)
            seen = loss.detach()

            def hook(grad, seen=seen):
                seen.mul_(2)
                return grad

            loss.register_hook(hook)
            loss.backward()
            optimizer.step()
            losses[read].append(seen.item() if read else seen)
    assert losses[True] == [float(loss) for loss in losses[False]]
