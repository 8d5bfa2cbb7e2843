"""`openhpu.expect` names operator, line and cause of what a part of a script did and should not have done."""

import inspect
import os

import pytest
import torch

import habana_frameworks.torch.core as htcore
import openhpu
from openhpu.device import mode
from openhpu.observe import events
from openhpu.testing.expect import ExpectationError

LAZY = mode.name() == "lazy"


def line():
    return inspect.currentframe().f_back.f_lineno


def test_a_block_that_does_nothing_of_it_passes():
    x = torch.ones(3, device="hpu")
    (x + 1).cpu()
    with openhpu.expect(no_fallback=True, no_waits=True, max_memory=2**30):
        x + 1
        htcore.mark_step()


def test_sizes_that_depend_on_values_are_waits():
    x = torch.ones(3, device="hpu")
    with pytest.raises(ExpectationError) as raised, openhpu.expect(no_waits=True) as record:
        x[x > 0]
        torch.equal(x, x)
        number = line() - 2
    sized = "aten::index.Tensor waited for the device, since its sizes depend on values,"
    assert f"{sized} at {__file__}:{number}, 1 time" in str(raised.value)
    assert f"aten::equal waited for the device at {__file__}:{number + 1}, 1 time" in str(raised.value)
    assert sum(one["count"] for one in record.row()["waits"]) == 2


def test_an_operator_that_is_new_violates_nothing():
    x = torch.ones(1, 1, 2, 1, 3, 1, 2, device="hpu")
    with openhpu.expect(no_waits=True) as record:
        x.roll(1)
    assert [op for op, _ in record.own_waits] == ["aten::roll"]
    assert not record.row()["waits"]


@pytest.mark.skipif(not LAZY, reason="graphs are lazy mode's")
def test_new_graphs_are_named_with_their_lines():
    def step(x):
        y = x * 3
        htcore.mark_step()
        return y, line() - 2

    for size in (5, 6):  # the operators are known then, and a step is one graph
        step(torch.ones(size, device="hpu"))
        htcore.mark_step()
    inputs = [torch.ones(size, device="hpu") for size in (7, 8, 7)]
    htcore.mark_step()
    with openhpu.expect(max_graphs=4) as record:
        for x in inputs:
            _, number = step(x)
    assert 1 <= len(record.graphs) <= 4
    new = torch.ones(9, device="hpu")
    htcore.mark_step()
    message = f"a new graph, which begins at {__file__}:{number}"
    with pytest.raises(ExpectationError, match=message), openhpu.expect(no_compilation=True):
        step(new)
    with openhpu.expect(no_compilation=True):
        for x in inputs:
            step(x)


def test_graphs_of_torch_compile_are_named_with_their_lines():
    @torch.compile(backend="hpu_backend", dynamic=False)
    def double(x):
        return x * 2

    inputs = [torch.ones(size, device="hpu") for size in (5, 6)]
    with openhpu.expect(no_waits=True) as record:
        double(inputs[0])
        number = line() - 1
    assert f"{__file__}:{number}" in [where for _, where in record.graphs]
    with pytest.raises(ExpectationError) as raised, openhpu.expect(no_compilation=True):
        double(inputs[1])
        number = line() - 1
    guard = "tensor 'x' size mismatch at index 0. expected 5, actual 6"
    assert f"a new graph, which begins at {__file__}:{number}" in str(raised.value)
    assert f"a recompilation: torch.compile: a guard failed: {guard}, at {__file__}:{number}" in str(raised.value)
    with openhpu.expect(no_compilation=True):
        double(inputs[1])


def test_new_graph_of_a_server_is_named_with_its_guard_and_its_work():
    @torch.compile(backend="hpu_backend", dynamic=False)
    def triple(x):
        return x * 3

    triple(torch.ones(5, device="hpu"))
    with openhpu.expect(no_new_graphs=True), events.work(lambda: "decode 5"):
        triple(torch.ones(5, device="hpu"))
    with pytest.raises(ExpectationError) as raised, openhpu.expect(no_new_graphs=True), events.work(lambda: "decode 6"):
        triple(torch.ones(6, device="hpu"))
        number = line() - 1
    guard = "tensor 'x' size mismatch at index 0. expected 5, actual 6"
    assert f"a guard failed: {guard}, at {__file__}:{number}, while decode 6" in str(raised.value)
    assert f"a new graph, which begins at {__file__}:{number}, while decode 6" in str(raised.value)


def test_an_error_of_the_block_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError), openhpu.expect(no_fallback=True):
        torch.ones(3, dtype=torch.complex64, device="hpu").sin()
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "wrong", [{"max_graphs": -1}, {"max_memory": "1 GB"}, {"no_falback": True}, {"max_graphs": True}]
)
def test_wrong_expectations_are_named(wrong):
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))), openhpu.expect(**wrong):
        pass


def test_a_forked_child_adds_nothing():
    x = torch.ones(3)
    with openhpu.expect(no_fallback=True) as record:
        child = os.fork()
        if child == 0:
            x.add(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert not record.fallbacks
