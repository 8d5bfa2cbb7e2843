"""Errors of recorded operators: raised where the step is waited for, with the line that recorded them; and fork."""

import pytest
import torch
from torch import nn

import habana_frameworks.torch.core as htcore

from .support import line

F = nn.functional


@pytest.fixture
def failing(strict_indices):
    """Records an operator that will fail in the middle of a graph; shapes were seen before."""
    table = torch.ones(4, 2, device="hpu")
    good, bad = torch.tensor([1, 2], device="hpu"), torch.tensor([1, 9], device="hpu")

    def record(index=bad):
        before = table + 1
        y, number = F.embedding(index, table), line()
        return before, y * 2, number

    record(good)
    torch.hpu.synchronize()
    return record


def test_an_error_of_an_earlier_step_keeps_its_line(failing):
    _, _, number = failing()
    htcore.mark_step()
    x = torch.zeros(4, device="hpu")
    for _ in range(3):
        x.add_(1)
        htcore.mark_step()
    with pytest.raises(IndexError, match=f"line {number}"):
        torch.hpu.synchronize()
    assert x.tolist() == [3.0] * 4


def test_a_forked_child_is_told_to_spawn_and_the_parent_s_step_goes_on(script):
    code = """
        import os, sys, torch, openhpu
        x = torch.zeros(4, device="hpu")
        x.add_(1)
        torch.hpu.synchronize()
        x.add_(1)  # recorded, not handed over
        before = openhpu.counters()["graphs_flushed"]
        child = os.fork()
        if child == 0:
            try:
                x.tolist()
                os._exit(1)
            except RuntimeError as error:
                os._exit(42 if "spawn" in str(error) else 2)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(openhpu.counters()["graphs_flushed"] - before)
        print(x.tolist())
    """
    assert script(code, warnings="default").out.splitlines() == ["42", "0", "[2.0, 2.0, 2.0, 2.0]"]
