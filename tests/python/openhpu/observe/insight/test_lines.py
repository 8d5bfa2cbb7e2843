"""`openhpu run` lists the lines whose indices were out of range, and whose int64 results wrap to 32 bits."""

import pytest

INDICES = """\
import torch
x = torch.ones(5, 2, device="hpu")
index = torch.tensor([-1, 7, 1], device="hpu")
for _ in range(3):
    y = x.index_select(0, index)
x.index_add_(0, index - 8, y)
"""
INTEGERS = """\
import torch
x = torch.tensor([2**30, 2**31 - 1, 5], device="hpu")
for _ in range(3):
    y = x + x
y = torch.tensor([2**40, 2**31, 1]).to("hpu")
print(y.tolist())
"""
# What a run sees: the script, its environment, what the text says, and the rows' operators, lines and counts.
LINES = {
    "indices_out_of_range": (
        INDICES,
        {},
        (
            "indices out of range (an accelerator reads an unspecified row here)",
            "script.py:5: aten::index_select, 6 indices, 3 of them -1",
            "script.py:6: aten::index_add_, 3 indices, 1 of them -1",
        ),
        {("aten::index_select", 5, 6), ("aten::index_add_", 6, 3)},
    ),
    "int64_overflows": (
        INTEGERS,
        {"OPENHPU_INT64": "gaudi"},
        (
            "integers of 64 bits that wrapped to 32 (OPENHPU_INT64=gaudi)",
            "script.py:4: aten::add, 6 elements",
            "script.py:5: copy_, 2 elements",
        ),
        {("aten::add", 4, 6), ("copy_", 5, 2)},
    ),
}


@pytest.mark.parametrize("what", LINES)
def test_lines_are_listed(openhpu_run, what):
    code, environment, texts, rows = LINES[what]
    run = openhpu_run(code, "--json", **environment)
    assert run.code == 0, run.err
    for text in texts:
        assert text in run.err
    assert {(row["op"], row["line"], row["count"]) for row in run.seen[what]} == rows
