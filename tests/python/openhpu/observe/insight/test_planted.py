"""A script with one recompilation, one fallback, one blocking read a step and one memory spike: each is named."""

import pytest

from openhpu.observe.insight import documents
from tests.python.openhpu.observe.insight.conftest import Page, line_of

PLANTED = """\
import torch
import torch.nn.functional as F
import habana_frameworks.torch.core as htcore

torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(40, 16), torch.randint(4, (40,)))
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to("hpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    for x, y in torch.utils.data.DataLoader(data, batch_size=16):  # the last batch has 8
        x, y = x.to("hpu"), y.to("hpu")
        optimizer.zero_grad()
        out = model(x)  # RECOMPILATION
        loss = F.cross_entropy(out, y)
        loss.backward()
        htcore.mark_step()
        optimizer.step()
        htcore.mark_step()
        if epoch == 2 and len(x) == 8:
            spike = torch.zeros(16 << 20, device="hpu")  # SPIKE
            small = torch.ones(8, device="hpu") + 1
            htcore.mark_step()
            del spike
            for _ in range(2):
                torch.linalg.svdvals(model[0].weight.detach())  # FALLBACK
        loss.item()  # READ
"""


MARKS = ("RECOMPILATION", "FALLBACK", "READ", "SPIKE")


def line(mark):
    return line_of(PLANTED, mark)


@pytest.mark.parametrize("mode", ["lazy", "eager"])
def test_each_is_named(openhpu_run, tmp_path, mode):
    run = openhpu_run(PLANTED, "--mode", mode, "--json", "--report", "page.html")
    seen = run.seen
    assert seen["exit_code"] == 0
    assert seen["complete"]
    assert seen["process"]["mode"] == mode
    assert (seen["steps"]["counted_by"], seen["steps"]["count"]) == ("optimizer", 12)
    shares = seen["steps"]["host_bound_share"], seen["steps"]["device_bound_share"]
    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= 0
    svd = [(r["line"], r["count"], r["dtype"]) for r in seen["fallbacks"] if "svd" in r["op"]]
    assert svd == [(line("FALLBACK"), 2, "Float")]
    assert {r["line"] for r in seen["fallbacks"]} == {line("FALLBACK")}
    reads = {r["line"]: r["count"] for r in seen["blocking_reads"] if "item" in r["op"]}
    assert reads == {line("READ"): 12}
    memory = seen["memory"]
    assert memory["peak_line"] == line("SPIKE")
    assert memory["peak_file"].endswith("script.py")
    assert (63 << 20) < memory["peak_growth_bytes"] <= memory["peak_bytes"] < (65 << 20)
    if mode == "eager":  # which makes no graphs
        assert seen["recompilations"] == []
        assert seen["counters"]["ops_submitted"] > 0
        return
    (found,) = seen["recompilations"]
    assert (found["cause"], found["line"], found["dimension"]) == ("size", line("RECOMPILATION"), 0)
    # Of a step whose loss is read each piece is compiled anew, for one cause.
    assert (found["before"], found["after"], found["count"]) == ("16", ["8"], 1)
    assert seen["graphs"]["distinct"] >= 3
    assert seen["graphs"].keys() == documents.empty("")["graphs"].keys()
    for mark in MARKS:
        assert f"script.py:{line(mark)}" in run.err
    check_page((tmp_path / "page.html").read_text())


def check_page(html):
    page = Page(html)
    assert page.loads == []
    assert "script" not in page.tags
    assert "url(" not in html
    assert "@import" not in html
    assert {"table", "svg", "details"} <= page.tags
    for mark in MARKS:
        assert page.text.count(f"script.py:{line(mark)}") >= 2, mark  # in its table and as evidence of an advice
    for heading in ("Advice", "Timeline", "Recompilations", "CPU fallbacks", "Blocking reads", "Memory", "Recipes"):
        assert heading in page.texts


def test_graphs_that_were_not_compiled_in_time_are_told(openhpu_run, tmp_path):
    run = openhpu_run(
        """\
import time
import torch
import habana_frameworks.torch.core as htcore
from openhpu.compiler.client import client as graphs
from openhpu.compiler.client import service
service.Service.request = lambda *arguments: None  # a compiler that never answers
x = torch.ones(4).to("hpu")
for _ in range(4):
    y = x + 1
    htcore.mark_step()
while not graphs.unanswered():  # the thread that asks has its own time
    time.sleep(0.01)
""",
        "--mode",
        "lazy",
        "--json",
        "--report",
        "page.html",
    )
    assert run.seen["graphs"]["compiling"] == 1
    assert run.seen["graphs"]["as_recipes"] == 0
    told = "1 graph was still being compiled when the script ended"
    assert told in run.err
    assert told in (tmp_path / "page.html").read_text()


def test_the_document_is_json_without_anything_special(openhpu_run):
    run = openhpu_run("print('no device')\n", "--json")
    assert run.seen["process"]["pid"] is None
    assert run.out.splitlines()[0] == "no device"
    assert "no hpu device was opened" in run.err
