"""Steps that end in a read begin while the rest is still being recorded."""

import pytest
import torch

import habana_frameworks.torch.core as htcore
from openhpu._machine import usable_cores

from .support import make, train_step

# Two pieces ahead of the rest: the forward, and the backward. On one core there is nobody to begin early.
PIECES = 2 if usable_cores() > 1 else 0


def steps(number, read, name="mlp"):
    """Losses of training steps; `read(i)`: whether the loss of step i is read at once."""
    model, optimizer, x, target = make(name)
    losses = []
    for i in range(number):
        loss = train_step(model, optimizer, x, target)
        htcore.mark_step()
        losses.append(loss.item() if read(i) else loss.detach())
    return torch.tensor([float(loss) for loss in losses])


@pytest.fixture
def early(counted):
    """`early(step)`: how many pieces of five steps began early, after twelve from which that was learned."""

    def run(step, *arguments):
        for _ in range(12):
            step(*arguments)
        with counted() as work:
            for _ in range(5):
                step(*arguments)
        return work["graphs_started_early"]

    return run


def test_steps_whose_loss_is_read_run_in_pieces(counted):
    steps(12, lambda i: True)
    with counted() as work:
        steps(5, lambda i: True)
    assert work["graphs_started_early"] == 5 * PIECES
    assert work["graphs_flushed"] >= 5 * (PIECES + 1)
    assert work["graphs_cut"] == 0


def test_steps_without_a_backward_stay_whole(early):
    """Although the grad mode changes, as between two optimizers."""

    def step():
        x = torch.ones(16, device="hpu")
        for _ in range(4):
            for _ in range(12):
                x = x * 2
            with torch.no_grad():
                for _ in range(12):
                    x = x / 2
        assert x.sum().item() == 16

    assert early(step) == 0


def test_steps_of_large_operators_stay_whole(early):
    """Recording is a small part of their time (kMostBytes in csrc/record/EarlyStart.h)."""
    weight = torch.ones(256, 256, device="hpu", requires_grad=True)

    def step(rows):
        x = torch.ones(rows, 256, device="hpu")
        (x @ weight).relu().square().mean().backward()
        htcore.mark_step()
        assert weight.grad.sum().item() != 0
        weight.grad = None

    assert early(step, 16) == 5 * min(1, PIECES)
    assert early(step, 1024) == 0


def test_an_optimizer_after_the_read_begins_before_the_next_forward(early):
    """As in Hugging Face's Trainer: it reads the loss between the backward pass and the optimizer."""
    model, optimizer, x, target = make("mlp")

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    # The optimizer and the forward, each; the backward ends at the read.
    assert early(step) == 5 * PIECES


def test_pieces_of_small_operators_are_short(early):
    """At most kMostNodes operators (csrc/record/EarlyStart.h)."""
    weight = torch.ones(16, device="hpu", requires_grad=True)

    def step(layers):
        x = torch.ones(16, device="hpu")
        for _ in range(layers):
            x = x * weight
        x.sum().backward()
        htcore.mark_step()
        assert weight.grad.sum().item() != 0
        weight.grad = None

    for layers, pieces in ((20, 2), (60, 5)):
        found = early(step, layers)
        assert (found >= 5 * pieces) if PIECES else found == 0, layers


@pytest.mark.parametrize("name", ["mlp", "convnet", "gpt"])
def test_pieces_change_no_value(name):
    read, unread = steps(6, lambda i: True, name), steps(6, lambda i: False, name)
    assert torch.equal(read, unread)


def test_a_loss_that_is_read_now_and_then_does_not_cut_the_other_steps(counted):
    steps(30, lambda i: i % 10 == 9)
    with counted() as work:
        steps(40, lambda i: i % 10 == 9)
    # At most the step after a read is in doubt.
    assert work["graphs_started_early"] <= 4 * PIECES


def test_a_loop_that_stops_reading_is_whole_again(counted):
    steps(6, lambda i: True)
    steps(20, lambda i: False)
    with counted() as work:
        steps(5, lambda i: False)
    assert work["graphs_started_early"] == 0


def test_pieces_hold_no_more_memory_than_eager_mode_does(script):
    code = """

        import habana_frameworks.torch.core as htcore
        model = nn.Sequential(*(nn.Sequential(nn.Linear(128, 128), nn.GELU()) for _ in range(6))).to("hpu")
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(192, 128, device="hpu")

        def step():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            htcore.mark_step()
            return loss.item()

        for _ in range(4):
            step()
        torch.hpu.reset_peak_memory_stats()
        before = openhpu.counters()["graphs_started_early"]
        step()
        print(torch.hpu.memory_stats()["MaxInUse"], openhpu.counters()["graphs_started_early"] - before)
    """
    peak, started = map(int, script(code).out.split())
    eager, _ = map(int, script(code, PT_HPU_LAZY_MODE="0").out.split())
    assert started == PIECES
    assert peak <= 1.05 * eager
