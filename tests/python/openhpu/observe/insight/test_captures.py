"""HPU graphs in a report: each capture with its reason, its replays and its memory, and lengths to pad to."""

from types import SimpleNamespace

import pytest

from openhpu.observe.insight import documents, page, sentences, summary
from openhpu.observe.insight.captures import Captures, paddings

SENTENCES = """
import torch, openhpu
import habana_frameworks.torch as ht

class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(30, 8)
        self.out = torch.nn.Linear(8, 4)

    def forward(self, ids, mask, scale=1.0):
        return (self.out(self.words(ids)) * mask.unsqueeze(-1) * scale).mean(1)

encoder = ht.hpu.wrap_in_hpu_graph(Encoder().to("hpu").eval())
with torch.no_grad():
    for length in [*range(1, 20), 7, 7]:
        ids = torch.ones(2, length, dtype=torch.int64, device="hpu")
        encoder(ids, torch.ones(2, length, device="hpu"))
    openhpu.phase("serving")
    encoder(torch.ones(2, 19, dtype=torch.int64, device="hpu"), torch.ones(2, 19, device="hpu"), scale=2.0)
"""


@pytest.mark.parametrize("mode", ["lazy", "eager"])
def test_sentences_of_many_lengths(openhpu_run, mode):
    run = openhpu_run(SENTENCES, "--json", "--mode", mode, "--fail-on=capture", OPENHPU_COMPILE="off")
    assert run.code == 3
    assert "failed because of --fail-on: capture" in run.err
    rows, later = run.seen["captures"], run.seen["captures_later"]
    assert len(rows) == 20
    assert run.seen["captures_more"] == 0
    assert {(row["owner"], row["line"]) for row in rows[:19]} == {("Encoder.forward", 18)}
    assert [row["inputs"]["args[0]"] for row in rows[:3]] == ["int64[2, 1]", "int64[2, 2]", "int64[2, 3]"]
    assert rows[0]["differs"] == []
    assert rows[4]["differs"] == [
        "args[0]: int64[2, 4], now int64[2, 5]",
        "args[1]: float32[2, 4], now float32[2, 5]",
    ]
    # The first call of a kind is a replay, too.
    assert [row["replays"] for row in rows] == [1] * 6 + [3] + [1] * 13
    assert all(row["operators"] >= 4 and row["ms"] > 0 and row["bytes"] >= 32 for row in rows)
    assert [row["differs"] for row in later] == [["kwargs['scale']: absent, now 2.0"]]
    assert later[0]["phase"] == "serving"
    assert later == rows[19:]
    text = summary.text([run.seen], 0)
    assert "HPU graphs: 20 captured, 1 of them after the warm-up, 22 replays, " in text
    assert "Encoder.forward: pad to 4 lengths (5, 10, 14, 19): 19 graphs become 4" in text
    shown = page.text(run.seen)
    assert "pad to 4 lengths" in shown
    assert "kwargs[&#39;scale&#39;]: absent, now 2.0" in shown


def test_no_capture_after_the_warm_up_fails_nothing(openhpu_run):
    code = SENTENCES.replace('openhpu.phase("serving")', "").replace("[*range(1, 20), 7, 7]", "[3, 3]")
    run = openhpu_run(code, "--json", "--mode", "lazy", "--fail-on=capture", OPENHPU_COMPILE="off")
    assert run.code == 0
    assert [row["replays"] for row in run.seen["captures"]] == [2, 1]


def test_captures_by_hand_and_of_training(openhpu_run):
    code = """
import torch, habana_frameworks.torch as ht
x = torch.ones(4, device="hpu")
for size in (4, 4):
    with ht.hpu.graph(g := ht.hpu.HPUGraph()):
        y = x * 2
    g.replay()
model = torch.nn.Linear(4, 4).to("hpu")
graphed = ht.hpu.make_graphed_callables(model, (torch.ones(2, 4, device="hpu", requires_grad=True),))
for _ in range(3):
    graphed(torch.ones(2, 4, device="hpu", requires_grad=True)).sum().backward()
"""
    rows = openhpu_run(code, "--json", "--mode", "lazy", OPENHPU_COMPILE="off").seen["captures"]
    assert [(row["owner"], row["replays"]) for row in rows] == [("", 1), ("", 1), ("Linear.forward", 3)]
    assert rows[2]["inputs"] == {"args[0]": "float32[2, 4]"}
    assert rows[2]["operators"] >= 3


CHECKED = """
import torch, habana_frameworks.torch as ht
scale = 2.0
f = ht.hpu.wrap_in_hpu_graph_func(lambda x: x * scale)
for scale in (2.0, 2.0, 3.0):
    print(f(torch.ones(4, device="hpu")).sum().item())
"""


def test_checked_graphs_in_a_report(openhpu_run):
    run = openhpu_run(CHECKED, "--json", "--mode", "lazy", "--fail-on=graph-check", OPENHPU_COMPILE="off")
    assert run.code == 3
    assert "failed because of --fail-on: graph-check" in run.err
    assert "HPU graphs checked: 3 replays, 1 different; 1 of 1 graph checked (100%)" in run.err
    line = "script.py:4: <lambda>: aten::mul.Tensor: result 0 differs in 4 of 4 elements, by up to 1: `other` was 2"
    assert line in run.err
    assert run.err.count("RuntimeWarning: HPU graph") == 1
    (row,) = run.seen["graph_differences"]
    assert row["line"] == 4
    assert row["count"] == 1
    assert "scale was 2.0 at the capture and is 3.0 now" in row["text"]
    assert "HPU graphs" in page.text(run.seen)
    assert "3 replays, 1 different" in page.text(run.seen)


def test_right_graphs_pass_the_check(openhpu_run):
    run = openhpu_run(CHECKED.replace("2.0, 3.0)", "2.0, 2.0)"), "--check-graphs", "--json", "--mode", "eager")
    assert run.code == 0
    assert "HPU graphs checked: 3 replays, 0 different" in run.err
    run = openhpu_run(CHECKED, "--json", "--mode", "eager", OPENHPU_COMPILE="off")
    assert run.seen["graphs_checked"] == 0
    assert "checked" not in run.err


def _event(**inputs):
    replays = SimpleNamespace(count=1)
    return {"owner": "f", "inputs": inputs, "operators": 1, "bytes": 1, "ms": 1.0, "replays": replays}


PLACE = {"file": "a.py", "line": 3}


def test_what_differs_in_two_lengths_is_not_padded():
    def rows(*sizes):
        captures = Captures()
        for a, b in sizes:
            captures.add(_event(x=f"float32[{a}, 8]", mask=f"bool[{b}]"), PLACE, "warm-up")
        return captures.document()["captures"]

    assert next(paddings(rows(*((n, n) for n in range(9)))))[1:] == (9, [1, 3, 6, 8])
    assert [*paddings(rows(*((n, n % 3) for n in range(9))))] == []
    assert [*paddings(rows(*((n, n) for n in range(3))))] == []


def test_more_graphs_than_are_kept_are_counted(monkeypatch):
    monkeypatch.setattr("openhpu.observe.insight.captures._KEPT", 2)
    captures = Captures()
    for n in range(5):
        captures.add(_event(x=f"float32[{n}]"), PLACE, "warm-up")
    document = {**documents.empty("x"), **captures.document()}
    assert len(document["captures"]) == 2
    assert document["captures_more"] == 3
    assert sentences.captures(document).startswith("5 captured, 2 replays")
