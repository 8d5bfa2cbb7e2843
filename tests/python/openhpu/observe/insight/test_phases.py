"""What was compiled after the warm-up: by hand, and by `openhpu run` in lazy mode."""

import pytest
import torch  # noqa: F401 - before the core

import openhpu
from openhpu.observe.insight import sentences
from openhpu.observe.insight.documents import empty
from openhpu.observe.insight.phases import AFTER, CACHE, SERVING, WARM_UP, WEIGHTS, Phases

PLACE = {"file": "train.py", "line": 7}
CAUSE = {"cause": "size", "op": "aten::mm", "argument": "self", "dimension": 0, "before": "8", "after": ["5"]}


def rows(phases):
    return [(row["phase"], row["step"], row["cause"]) for row in phases.document()["later"]]


def test_steps_are_the_first_optimizers():
    """A script with a mark_step before and after its optimizer's step: one step, of which a half is no step."""
    phases = Phases()
    for new in (True, True, False):
        if new:
            phases.new_graph(PLACE)
        phases.step("optimizer 1")
        phases.step("optimizer 2")
        phases.step("mark_step")
    first = phases.document()["phases"][0]
    assert (first["name"], first["steps"], first["graphs"]) == (WARM_UP, 3, 2)


def test_what_a_server_compiles_and_holds_by_phase():
    """Before serving no graph is late; a peak above a Gaudi's memory is told with the phase that took most of it."""
    phases = Phases()
    held = (0, 30 << 30, 95 << 30)
    for name, in_use in zip((WEIGHTS, CACHE, WARM_UP), held, strict=True):
        phases.begin(name, in_use)
        phases.recipe()
        phases.new_graph(PLACE)
    phases.begin(SERVING, 99 << 30)
    phases.cause = CAUSE
    phases.new_graph(PLACE)
    assert rows(phases) == [(SERVING, 1, CAUSE)]
    document = empty("serve") | {"phases": phases.document(100 << 30)}
    document["memory"] |= {"peak_bytes": 100 << 30}
    assert sentences.phases(document) == [
        "weights: 0 steps, 1 new graph, 1 recipe compiled, 30.0 GiB in use at its end",
        "KV cache: 0 steps, 1 new graph, 1 recipe compiled, 95.0 GiB in use at its end",
        "warm-up: 0 steps, 1 new graph, 1 recipe compiled, 99.0 GiB in use at its end",
        "serving: 0 steps, 1 new graph, 100.0 GiB in use at its end",
    ]
    assert sentences.devices_too_small(document) == [
        "Gaudi 2 has 96 GiB, the peak is 100.0 GiB; 65.0 GiB came in KV cache"
    ]
    document["memory"]["peak_bytes"] = 96 << 30
    assert sentences.devices_too_small(document) == []


def test_a_cause_is_that_of_the_next_graph_of_its_step():
    phases = Phases()
    phases.begin("serving")
    phases.cause = CAUSE
    phases.step("mark_step")
    phases.new_graph(PLACE)
    phases.cause = CAUSE
    phases.cause = None
    phases.new_graph(PLACE)
    assert rows(phases) == [("serving", 2, None), ("serving", 2, None)]


def test_rows_are_bounded():
    phases = Phases()
    phases.begin("serving")
    for _ in range(1000):
        phases.new_graph(PLACE)
    assert (len(rows(phases)), phases.document()["phases"][1]["graphs"]) == (200, 1000)


SCRIPT = """
import torch
import habana_frameworks.torch.core as htcore
import openhpu
x = torch.ones(8, 4).to("hpu")
def step(n):
    y = (x[:n] * 2 + 1).relu()
    htcore.mark_step()
for n in (8, 8, 8, 5, 8):
    step(n)
openhpu.phase("serving")
for n in (8, 3):
    step(n)
"""


def test_openhpu_run_names_line_step_phase_and_cause(openhpu_run):
    ran = openhpu_run(SCRIPT, "--json", PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="background")
    assert ran.code == 0, ran.err
    after, serving = ran.seen["phases"]["later"]
    assert (after["phase"], after["step"], after["line"]) == (AFTER, 2, 7)
    assert (after["cause"]["cause"], after["cause"]["before"], after["cause"]["after"]) == ("size", "8", ["5"])
    assert (serving["phase"], serving["step"], serving["line"]) == ("serving", 2, 7)
    assert "compiled after warm-up:\n  script.py:7: a new graph in step 2 after the warm-up: aten::mul" in ran.err
    assert "script.py:7: a new graph in step 2 of serving" in ran.err


NEW_OPERATORS = """
import torch
import habana_frameworks.torch.core as htcore
import openhpu
x = torch.ones(4, device="hpu")
htcore.mark_step()
openhpu.phase("serving")
a = torch.eye(3, device="hpu")  # line 8
htcore.mark_step()
y = x * 2  # line 10
b = torch.eye(5, device="hpu")
htcore.mark_step()
y = x - 2  # line 13
b = torch.eye(6, device="hpu")
y = y * 2
htcore.mark_step()
"""


def test_a_new_graph_is_told_with_the_first_line_of_its_step(openhpu_run):
    """Also where operators ran on their own, since they were new, so that no graph or only the step's rest was left."""
    ran = openhpu_run(NEW_OPERATORS, "--json", PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off")
    assert ran.code == 0, ran.err
    assert [row["line"] for row in ran.seen["phases"]["later"]] == [8, 10, 13]
    assert "graphs: 4 different" in ran.err
    assert ran.seen["graphs"]["distinct"] == sum(phase["graphs"] for phase in ran.seen["phases"]["phases"])


COMPILED = """
import torch
import openhpu
@torch.compile(backend="hpu_backend", dynamic=False)
def loss(x, flag):
    return (x * 2).sum() if flag else x.sum()
layer = torch.nn.Linear(4, 4).to("hpu")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
x = torch.ones(8, 4).to("hpu")
def step(n, flag=True):
    loss(layer(x[:n]), flag).backward()
    optimizer.step()
for n in (8, 8, 5):
    step(n)
openhpu.phase("serving")
step(5, flag=False)
step(5, flag=False)
"""


def test_openhpu_run_names_the_guard_of_a_graph_of_torch_compile(openhpu_run, tmp_path):
    ran = openhpu_run(
        COMPILED,
        "--json",
        "--report",
        "page.html",
        "--fail-on=recompilation",
        PT_HPU_LAZY_MODE="0",
        OPENHPU_COMPILE="off",
    )
    assert ran.code == 3, ran.err
    seen = ran.seen["phases"]
    size, flag = "tensor 'x' size mismatch at index 0. expected 8, actual 5", "flag == True"
    assert [(row["phase"], row["step"], row["line"], row["cause"]["argument"]) for row in seen["later"]] == [
        (AFTER, 1, 11, size),
        ("serving", 1, 11, flag),
    ]
    assert [(one["name"], one["graphs"]) for one in seen["phases"]] == [(WARM_UP, 1), (AFTER, 1), ("serving", 1)]
    said = f"script.py:11: a new graph in step 1 after the warm-up: torch.compile: a guard failed: {size}"
    assert said in ran.err
    page = (tmp_path / "page.html").read_text()
    assert "Compiled after warm-up" in page
    assert "a guard failed: flag == True" in page


@pytest.mark.parametrize(("name", "error"), [(3, TypeError), (" ", ValueError)])
def test_a_wrong_name(name, error):
    with pytest.raises(error, match=r"openhpu\.phase: expected a name"):
        openhpu.phase(name)
