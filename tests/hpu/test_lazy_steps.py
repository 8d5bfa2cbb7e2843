"""Where steps end, how many are on their way, and what happens in the middle of one."""

import threading
import time
from functools import partial

import pytest
import torch
from torch import nn

import habana_frameworks.torch.core as htcore
import openhpu

from .support import in_threads, make, train_step


def test_a_step_is_one_graph_and_runs_node_by_node(counted):
    model, optimizer, x, target = make("mlp")
    for _ in range(20):  # until no step begins early because other tests have read the loss of theirs
        train_step(model, optimizer, x, target)
        htcore.mark_step()
    with counted(graphs_flushed=1, graphs_cut=0, ops_in_recipes=0, ops_waited=0, ops_fallback=0) as work:
        loss = train_step(model, optimizer, x, target)
        for _ in range(3):  # an empty step hands nothing over
            htcore.mark_step()
        torch.hpu.synchronize()
    assert work["ops_node_by_node"] == work["ops_recorded"] > 20
    assert loss.isfinite().item()


def test_first_sight_cuts_the_graph_and_second_sight_does_not(counted):
    x = torch.ones(3, 29, device="hpu")
    torch.hpu.synchronize()
    x + 1
    with counted(ops_recorded=1, graphs_cut=1, ops_waited=1):
        y = torch.copysign(x, x + 1)
        torch.hpu.synchronize()
    with counted(graphs_cut=0, ops_waited=0, ops_recorded=2, graphs_flushed=1):
        z = torch.copysign(x, x + 1)
        torch.hpu.synchronize()
    assert torch.equal(y, z)


def additions(x, number):
    """A step of so many additions, which is not new any more."""

    def step():
        for _ in range(number):
            x.add_(1)
        htcore.mark_step()

    step()
    torch.hpu.synchronize()
    return step


def test_the_number_of_steps_on_their_way_is_bounded(gate):
    step = additions(x := torch.zeros(16, device="hpu"), 300)
    gate.patience = 0.5
    with pytest.raises(AssertionError, match="the host waited"), gate:
        for _ in range(20):
            step()
    assert x.tolist() == [6300.0] * 16


def test_a_script_is_as_far_ahead_as_in_eager_mode(gate):
    """By 4096 operators."""
    step = additions(x := torch.zeros(16, device="hpu"), 100)
    with gate:
        for _ in range(34):  # a host that waits for the device fails here
            step()
        assert not torch.hpu.current_stream().record_event().query()
    assert x.tolist() == [3500.0] * 16


@pytest.mark.parametrize(("most", "flushed"), [("10", (9, 10)), ("1", (95, 95))])
def test_a_long_graph_ends_by_itself(script, most, flushed):
    code = """
        x = torch.zeros(4, device="hpu")
        x.add_(1)
        torch.hpu.synchronize()
        openhpu.reset_counters()
        for _ in range(95):
            x.add_(1)
        assert openhpu.counters()["ops_recorded"] == 95
        before = openhpu.counters()["graphs_flushed"]
        assert x.tolist() == [96.0] * 4
        print((before, openhpu.counters()["graphs_flushed"]))
    """
    assert script(code, PT_HPU_MAX_COMPOUND_OP_SIZE=most).out == str(flushed)


def test_mark_step_in_backward_hooks(counted):
    def program(device, mark):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        x = torch.linspace(-1, 1, 24).view(4, 6).to(device)
        model.to(device)

        def hook(grad):
            mark()
            return grad * 2

        for parameter in model.parameters():
            parameter.register_hook(hook)
            parameter.register_post_accumulate_grad_hook(lambda parameter: mark())
        y = model(x)
        y.register_hook(lambda grad: mark())
        y.square().sum().backward()
        return [parameter.grad.cpu() for parameter in model.parameters()]

    expected = program("cpu", lambda: None)
    program("hpu", htcore.mark_step)
    with counted(graphs_cut=0) as work:
        actual = program("hpu", htcore.mark_step)
    torch.testing.assert_close(actual, expected)
    assert work["graphs_flushed"] >= 6


@pytest.mark.parametrize("threads", [2, 6])
def test_threads_record_at_once(threads, counted):
    """Each thread's values are its own, whoever's operators stand between its own and whoever ends the step."""
    x = torch.arange(8.0, device="hpu")
    start = threading.Barrier(threads)

    def work(number):
        start.wait()
        y = x + number
        for i in range(150):
            y = y * 1.0 + 1
            if i % 25 == number % 25:
                htcore.mark_step()
            if i % 50 == 49:
                assert y.tolist() == [float(v + number + i + 1) for v in range(8)]

    (x + 1) * 1.0 + 1
    torch.hpu.synchronize()
    with counted(ops_recorded=threads * 301, ops_node_by_node=threads * 301):
        in_threads(*(partial(work, number) for number in range(threads)))
        torch.hpu.synchronize()


def test_who_waits_for_steps_in_flight_holds_nobody_up(gate):
    """A thread that is far enough ahead waits; others record and free meanwhile."""
    x = torch.zeros(8, device="hpu")

    def step():
        y = x + 1
        for _ in range(1500):
            y.add_(1)
        htcore.mark_step()

    step()
    torch.hpu.synchronize()
    freed = x + 1
    before = openhpu.counters()["graphs_flushed"]
    with gate:
        thread = threading.Thread(target=lambda: [step() for _ in range(5)])
        thread.start()
        while openhpu.counters()["graphs_flushed"] < before + 4 and not gate.waited:
            time.sleep(0.001)
        del freed
        y = x + 1
        assert thread.is_alive()  # it waits
        gate.open()
        thread.join()
    assert y.tolist() == [1.0] * 8
