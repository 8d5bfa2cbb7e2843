"""`openhpu run` lists the lines whose int64 results wrap to 32 bits under OPENHPU_INT64=gaudi."""

CODE = """\
import torch
x = torch.tensor([2**30, 2**31 - 1, 5], device="hpu")
for _ in range(3):
    y = x + x
y = torch.tensor([2**40, 2**31, 1]).to("hpu")
print(y.tolist())
"""


def test_lines_are_listed(openhpu_run):
    run = openhpu_run(CODE, OPENHPU_INT64="gaudi")
    assert run.code == 0, run.err
    text = run.out + run.err
    assert "integers of 64 bits that wrapped to 32 (OPENHPU_INT64=gaudi)" in text
    assert "script.py:4: aten::add, 6 elements" in text
    assert "script.py:5: copy_, 2 elements" in text
    seen = openhpu_run(CODE, "--json", OPENHPU_INT64="gaudi").seen
    assert {(r["op"], r["line"], r["count"]) for r in seen["int64_overflows"]} == {("aten::add", 4, 6), ("copy_", 5, 2)}
