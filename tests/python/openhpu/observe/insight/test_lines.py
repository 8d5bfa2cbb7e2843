"""`openhpu run` lists lines: indices out of range, int64 results that wrap to 32 bits, and what did not run."""

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
COMPILED_ONLY = """\
import torch
from habana_frameworks.torch.internal import bridge_config
x = torch.ones(8, device="hpu")
torch.hpu.synchronize()
with bridge_config.env_setting("PT_COMPILE_ONLY_MODE", True):
    for _ in range(3):
        x.mul_(2)
    kept = x + 1
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
    "not_run": (
        COMPILED_ONLY,
        {"PT_HPU_LAZY_MODE": "0"},
        (
            "left out by PT_COMPILE_ONLY_MODE",
            "script.py:7: aten::mul_.Tensor did not change older memory (96 B in all), 3 times",
            "script.py:8: made here, and alive after the mode without contents (32 B in all), 1 time",
        ),
        {("aten::mul_.Tensor", 7, 3), ("", 8, 1)},
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
