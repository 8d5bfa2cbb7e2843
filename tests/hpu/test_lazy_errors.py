"""Errors of recorded operators: raised where the step is waited for, with the line that recorded them; and fork."""

import re

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


WAITS = {
    "synchronize": lambda y: torch.hpu.synchronize(),
    "mark_step sync": lambda y: htcore.mark_step(sync=True),
    "item": lambda y: y.sum().item(),
    "cpu": lambda y: y.cpu(),
    "tolist": lambda y: y.tolist(),
    "print": str,
    "event": lambda y: torch.hpu.current_stream().record_event().synchronize(),
}


@pytest.mark.parametrize("name", WAITS)
def test_an_error_in_a_graph_names_operator_and_line(name, failing, counted):
    with counted() as work:
        _, y, number = failing()
    assert work["ops_recorded"] == 3 and work["graphs_flushed"] == 0
    with pytest.raises(IndexError) as caught:
        WAITS[name](y)
    text = str(caught.value)
    assert "index out of range" in text and "aten::index_select" in text
    assert re.search(rf"{re.escape(__file__)}\", line {number}\b", text)
    torch.hpu.synchronize()  # reported once
    assert (torch.ones(3, device="hpu") + 1).tolist() == [2.0] * 3


def test_operators_before_and_after_a_failed_one_still_run(failing):
    x = torch.zeros(4, device="hpu")
    x.add_(1)
    before, _, _ = failing()
    x.add_(1)
    with pytest.raises(IndexError):
        torch.hpu.synchronize()
    assert x.tolist() == [2.0] * 4
    assert before.tolist() == [[2.0, 2]] * 4


def test_the_first_of_two_errors_in_a_graph_is_reported(failing):
    _, _, number = failing()
    failing()
    with pytest.raises(IndexError, match=f"line {number}"):
        torch.hpu.synchronize()
    torch.hpu.synchronize()


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


def test_a_warning_of_a_recorded_kernel_reaches_the_script():
    x = torch.ones(3, device="hpu")
    for _ in range(2):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            x[:1].var()
            torch.hpu.synchronize()


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


def test_a_forked_child_may_drop_recorded_tensors_and_end(script):
    code = """
        import os, torch
        x = torch.zeros(4, device="hpu")
        x.add_(1)
        torch.hpu.synchronize()
        y = x + 1
        child = os.fork()
        if child == 0:
            del x, y
            raise SystemExit(7)  # with Python's whole shutdown
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), y.tolist())
    """
    assert script(code, warnings="default").out == "7 [2.0, 2.0, 2.0, 2.0]"


def test_a_script_may_end_with_a_recorded_step(script):
    code = """
        import torch
        x = torch.zeros(4, device="hpu")
        for _ in range(3):
            x.add_(1)
        print("end")
    """
    result = script(code)
    assert (result.out, result.err) == ("end", "")
