"""Steps that end in a read begin while the rest is still being recorded."""

import pytest
import torch

import habana_frameworks.torch.core as htcore
from openhpu._machine import usable_cores

from .support import make, train_step

# Two pieces ahead of the rest: the forward, and the backward. On one core there is nobody to begin early.
PIECES = 2 if usable_cores() > 1 else 0


def steps(number, every, name="mlp"):
    """Losses of training steps, of which one in `every` is read at once; 0: none."""
    model, optimizer, x, target = make(name)
    losses = []
    for i in range(number):
        loss = train_step(model, optimizer, x, target)
        htcore.mark_step()
        losses.append(loss.item() if every and i % every == every - 1 else loss.detach())
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


def trains(layers, rows=1, width=16):
    """A step of so many layers, each a product of its input and of the one weight."""
    weight = torch.ones(width, width, device="hpu", requires_grad=True)

    def step():
        x = torch.ones(rows, width, device="hpu")
        for _ in range(layers):
            x = x * weight if rows == 1 else x @ weight
        x.relu().square().mean().backward()
        htcore.mark_step()
        assert weight.grad.sum().item() != 0
        weight.grad = None

    return step


def test_steps_whose_loss_is_read_run_in_pieces(counted):
    steps(12, 1)
    with counted(graphs_started_early=5 * PIECES, graphs_cut=0) as work:
        steps(5, 1)
    assert work["graphs_flushed"] >= 5 * (PIECES + 1)


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
    assert early(trains(1, 16, 256)) == 5 * min(1, PIECES)
    assert early(trains(1, 1024, 256)) == 0


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
    for layers, pieces in ((20, 2), (60, 5)):
        found = early(trains(layers))
        assert (found >= 5 * pieces) if PIECES else found == 0, layers


@pytest.mark.parametrize("name", ["mlp", "convnet", "gpt"])
def test_pieces_change_no_value(name):
    read, unread = steps(6, 1, name), steps(6, 0, name)
    assert torch.equal(read, unread)


@pytest.mark.parametrize(
    ("before", "every", "most"),
    [([(30, 10)], 10, 4 * PIECES), ([(6, 1), (20, 0)], 0, 0)],  # at most the step after a read is in doubt
)
def test_steps_whose_loss_is_not_read_are_whole(counted, before, every, most):
    for number, read in before:
        steps(number, read)
    with counted() as work:
        steps(40, every)
    assert work["graphs_started_early"] <= most


def test_pieces_hold_no_more_memory_than_eager_mode_does(script):
    code = """
        model = nn.Sequential(*(nn.Sequential(nn.Linear(128, 128), nn.GELU()) for _ in range(6))).to("hpu")
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(192, 128, device="hpu")
        for _ in range(5):
            torch.hpu.reset_peak_memory_stats()
            openhpu.reset_counters()
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            htcore.mark_step()
            loss.item()
        print(torch.hpu.memory_stats()["MaxInUse"], openhpu.counters()["graphs_started_early"])
    """
    peak, started = map(int, script(code).out.split())
    eager, _ = map(int, script(code, PT_HPU_LAZY_MODE="0").out.split())
    assert started == PIECES
    assert peak <= 1.05 * eager
