"""A script that masks its targets: `openhpu run` names the mask, and says that the recompilations come from it."""

import pytest

from tests.python.openhpu.observe.insight.conftest import line_of

MASKED = """\
import torch
import torch.nn.functional as F
import habana_frameworks.torch.core as htcore
from openhpu.compiler.client import service

service.Service.request = lambda *arguments: None  # a compiler that never answers: what is asked of it is enough
model = torch.nn.Linear(16, 4).to("hpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.randn(32, 16).to("hpu")
for valid in (5, 5, 5, 5, 7, 7, 7, 7):
    targets = torch.full((32,), -100)
    targets[:valid] = 1
    targets = targets.to("hpu")
    optimizer.zero_grad()
    x, t = INPUTS  # MASK
    htcore.mark_step() if EARLY else None
    F.cross_entropy(model(x), t).backward()  # RECOMPILATION
    optimizer.step()
    htcore.mark_step()
"""
SELECTED = "rows[targets != -100] * 2, targets[targets != -100]"
CUT = "(lambda n: (rows[:n], targets[:n]))(len((targets != -100).nonzero()))"
GIVEN = "(rows[rows[:, 0] > -99], (rows[:valid], targets[:valid]))[1]"


@pytest.mark.parametrize(
    ("inputs", "early", "op", "waits", "origin"),
    [
        pytest.param(SELECTED, False, "aten::index.Tensor", 16, "from", id="selected"),
        pytest.param(SELECTED, True, "aten::index.Tensor", 16, "from", id="made in a graph before"),
        pytest.param(CUT, False, "aten::nonzero", 8, "after", id="cut to a number"),
        pytest.param(GIVEN, False, "aten::index.Tensor", 8, None, id="not from the mask"),
    ],
)
def test_a_mask_is_named(openhpu_run, tmp_path, inputs, early, op, waits, origin):
    script = MASKED.replace("INPUTS", inputs).replace("EARLY", str(early))
    run = openhpu_run(script, "--mode", "lazy", "--json", "--report", "page.html", "--fail-on", "shape")
    assert run.code == 3, run.err
    at = line_of(MASKED, "MASK")
    (mask,) = run.seen["shape_waits"]
    assert (mask["op"], mask["line"], mask["count"]) == (op, at, waits)
    assert mask["wait_ns"] > 0
    assert not run.seen["blocking_reads"]
    found = [r for r in run.seen["recompilations"] if r["cause"] == "size"]
    expected = (origin, op, at) if origin else (None, None, None)
    assert {tuple(r.get(name) for name in ("origin", "origin_op", "origin_line")) for r in found} == {expected}
    place = f"script.py:{at}"
    said = {"from": f"(sizes come from {op} at {place})", "after": f"(after {op} at {place}, which returned", None: ""}
    page = (tmp_path / "page.html").read_text()
    for text in (said[origin], f"{place}: {op}, {waits} times, waited"):
        assert text in run.err
        assert text in page
    assert "Keep sizes independent of values" in page
    assert {row["kind"] for row in run.seen["own_waits"]} == {"first_sight"}
    assert "at the first call of an operator" in run.err
