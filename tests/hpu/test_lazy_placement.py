"""Which thread runs the graphs of a small step: each step that repeats is timed both ways (csrc/record/Placement.h)."""

import pytest

import habana_frameworks.torch.core as htcore

from .support import make, train_step

ROWS = 3  # a batch of no other test: the step must be new to this process
TRIAL = 12  # repetitions on the worker, then as many on the submitting thread


def losses(number):
    model, optimizer, x, target = make("mlp")
    x, target = x[:ROWS], target[:ROWS]
    found = []
    for _ in range(number):
        loss = train_step(model, optimizer, x, target)
        htcore.mark_step()
        found.append(loss.item())
    return found


def test_a_trial_runs_the_graphs_where_they_are_submitted(counted):
    with counted() as work:
        found = losses(4 * TRIAL)
    assert work["graphs_run_where_submitted"] >= TRIAL - 2
    # By now the step may run elsewhere, and as a recipe from its first repetition on.
    assert losses(4 * TRIAL) == pytest.approx(found, rel=1e-5)
