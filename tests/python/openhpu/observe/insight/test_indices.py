"""`openhpu run` lists the lines whose indices were out of range."""

CODE = """\
import torch
x = torch.ones(5, 2, device="hpu")
index = torch.tensor([-1, 7, 1], device="hpu")
for _ in range(3):
    y = x.index_select(0, index)
x.index_add_(0, index - 8, y)
"""


def test_lines_with_indices_out_of_range_are_listed(openhpu_run):
    run = openhpu_run(CODE)
    assert run.code == 0, run.err
    text = run.out + run.err
    assert "indices out of range (an accelerator reads an unspecified row here)" in text
    assert "script.py:5: aten::index_select, 6 indices, 3 of them -1" in text
    assert "script.py:6: aten::index_add_, 3 indices, 1 of them -1" in text
    seen = openhpu_run(CODE, "--json").seen
    rows = {(r["op"], r["line"]): (r["count"], r["padding"]) for r in seen["indices_out_of_range"]}
    assert rows == {("aten::index_select", 5): (6, 3), ("aten::index_add_", 6): (3, 1)}
