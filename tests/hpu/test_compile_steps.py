"""`mark_step` and its relatives in functions that torch.compile traces."""

import pytest
import torch
from torch import nn

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.core import mark_step, step_closure
from tests.hpu.support import compiled, heard, make, train_step

pytestmark = pytest.mark.usefixtures("compiled_graphs")


class Mark(nn.Module):
    """Marks a step between layers, as scripts for lazy mode do."""

    def forward(self, x):
        htcore.mark_step()
        return x


def test_steps_break_no_graph(compiled_graphs):
    def work(x):
        y = x * 3
        htcore.mark_step()
        htcore.mark_step("hpu:0", sync=True)
        htcore.step_closure.mark_step()
        htcore.iter_mark_step()
        step_closure._mark_step_if_lazy()
        mark_step()
        return y - 1

    f = compiled(work, fullgraph=True)
    with heard("mark_step") as seen:
        for k in range(3):
            assert f(torch.full((2,), float(k), device="hpu")).tolist() == [3.0 * k - 1] * 2
    assert len(compiled_graphs) == 1
    assert not seen


@pytest.mark.filterwarnings("ignore")  # Inductor's and Dynamo's own
def test_a_training_step_that_marks_its_end():
    """backward() breaks the graph; what follows it, the step's end too, is compiled or runs as in eager mode."""
    parts, reference = make("mlp", torch.optim.SGD), make("mlp", torch.optim.SGD, device="cpu")

    def step(*parts):
        loss = train_step(*parts)
        htcore.mark_step()
        return loss

    f = compiled(step)
    for _ in range(3):
        torch.testing.assert_close(f(*parts).cpu(), train_step(*reference), rtol=1e-4, atol=1e-5)


def test_closures_that_wait_are_called(compiled_graphs):
    """With closures queued the call ends the step for real, between two graphs; without them it is traced again."""
    called = []

    def work(x):
        y = x * 3
        htcore.mark_step()
        return y - 1

    f = compiled(work)
    x = torch.ones(2, device="hpu")
    f(x)
    assert len(compiled_graphs) == 1
    for k in range(3):
        htcore.add_step_closure(called.append, (k,))
        assert f(x).tolist() == [2.0, 2.0]
        assert called == list(range(k + 1))
        assert f(x).tolist() == [2.0, 2.0]
        assert called == list(range(k + 1))
    assert len(compiled_graphs) == 3  # of the whole; before and after the call


def test_closures_queued_in_compiled_code():
    called = []

    def work(x):
        y = x * 3
        htcore.add_step_closure(lambda value: called.append(value.tolist()), (y,))
        z = y + 1
        htcore.mark_step()
        return z * 2

    f = compiled(work)
    for k in range(4):
        assert f(torch.full((2,), float(k), device="hpu")).tolist() == [6.0 * k + 2] * 2
        assert called[-1] == [3.0 * k] * 2
        assert len(called) == k + 1


def test_a_whole_graph_cannot_hold_closures():
    def queues(x):
        htcore.add_step_closure(print)
        return x + 1

    def ends(x):
        htcore.mark_step()
        return x + 1

    called = []
    htcore.add_step_closure(called.append, (1,))
    for work in (queues, ends):
        with pytest.raises(torch._dynamo.exc.Unsupported, match="call them outside of the compiled function"):
            compiled(work, fullgraph=True)(torch.ones(2, device="hpu"))
    htcore.mark_step()
    assert called == [1]


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_model_holds_no_steps(strict):
    model = nn.Sequential(nn.Linear(3, 4), Mark(), nn.Linear(4, 2)).to("hpu").eval()
    x = torch.randn(5, 3, device="hpu")
    program = torch.export.export(model, (x,), strict=strict)
    assert not any("step" in str(node.target) for node in program.graph.nodes)
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), model(x))
