"""Errors of recorded operators: raised where the step is waited for, with the line that recorded them."""

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
