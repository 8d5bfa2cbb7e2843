"""PT_COMPILE_ONLY_MODE: operators are recorded and compiled, nothing is launched, and what a script sees is told."""

import pytest
import torch

from habana_frameworks.torch.internal import bridge_config
from tests.hpu.support import counted, heard, line


def mode():
    return bridge_config.env_setting("PT_COMPILE_ONLY_MODE", True)


def filled(value, count=5):
    """On the device, computed."""
    x = torch.full((count,), value).to("hpu")
    torch.hpu.synchronize()
    return x


# What would change memory that is older than the mode.
WRITES = {
    "add_": lambda x: x.add_(1),
    "lerp_": lambda x: x.lerp_(torch.ones_like(x), 0.5),
    "copy_": lambda x: x.copy_(torch.ones_like(x)),
    "view": lambda x: x[1:, :2].zero_(),
    "out": lambda x: torch.mul(x, 2, out=x),
    "index_put": lambda x: x.index_put_((torch.tensor([0, 2], device="hpu"),), torch.zeros(3, device="hpu")),
    "foreach": lambda x: torch._foreach_mul_([x], 3.0),
    "random": lambda x: x.normal_(),
}


@pytest.mark.parametrize("name", WRITES)
def test_older_memory_stays_as_it_is(name):
    x = torch.arange(3.0, 15.0).view(4, 3).to("hpu")
    WRITES[name](x.clone())
    before = x.tolist()
    with heard("not_run") as seen, mode():
        WRITES[name](x)
        torch.hpu.synchronize()
    assert x.tolist() == before
    assert {event.params["bytes"] for event in seen if event.params["what"] == "write"} == {4 * 3 * 4}
    WRITES[name](x)
    assert x.tolist() != before


def test_call_that_is_new_to_the_process_does_not_run():
    x = torch.full((7, 3, 2), 2.0).to("hpu")
    index = torch.tensor([1, 5]).to("hpu")
    with mode():
        x.index_fill_(0, index, 5.0)
        torch.hpu.synchronize()
    assert x.unique().tolist() == [2.0]


def test_nothing_is_launched_and_sizes_are_right():
    x = filled(2.0, 11)
    with counted() as work, mode():
        y = (x + 1).view(1, 11).repeat(2, 1)
        assert y.shape == (2, 11)
        torch.hpu.synchronize()
    assert work["launches_left_out"] >= 1
    with counted(launches_left_out=0):
        assert (x + 1).tolist() == [3.0] * 11


def test_work_from_before_the_mode_runs():
    x = filled(1.0)
    x.add_(1)
    with mode():
        pass
    y = x * 3  # recorded after it
    assert (x.tolist(), y.tolist()) == ([2.0] * 5, [6.0] * 5)


def test_copies_between_host_and_device_run():
    x = filled(1.0)
    with heard("not_run") as seen, mode():
        x.copy_(torch.arange(5.0))
        y = torch.arange(4).to("hpu")
        assert y.tolist() == [0, 1, 2, 3]
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert y.tolist() == [0, 1, 2, 3]
    assert [event.params["what"] for event in seen] == []


def test_results_whose_sizes_depend_on_values_are_computed():
    x = torch.tensor([0, 4, 0, 5]).to("hpu")
    with mode():
        found = x.nonzero()
    assert found.tolist() == [[1], [3]]


def test_what_a_script_sees_is_told_with_its_line():
    x = filled(1.0)
    with heard("not_run") as seen:
        with mode():
            x.mul_(2)
            at_write = line() - 1
            kept = x + 1
            at_kept = line() - 1
            dropped = x + 2
            del dropped
            torch.hpu.synchronize()
            kept.sum().item()
            at_read = line() - 1
        torch.hpu.synchronize()
    told = [(event.params["what"], event.params["op"], event.site[1]) for event in seen]
    assert ("write", "aten::mul_.Tensor", at_write) in told
    assert ("read", "aten::item", at_read) in told
    assert [row for row in told if row[0] == "kept"] == [("kept", "", at_kept)]
    assert kept.shape == (5,)


def test_an_error_inside_ends_the_mode():
    x = filled(1.0)
    with pytest.raises(RuntimeError, match="must match"), mode():
        x + torch.ones(4, device="hpu")
    assert (x + 1).tolist() == [2.0] * 5


def test_captured_graph_is_made_and_not_replayed():
    x, y = filled(1.0), filled(0.0)
    torch.hpu.synchronize()

    def run():
        y.add_(x)

    run()
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        run()
    torch.hpu.synchronize()
    before = y.tolist()
    with mode():
        graph.replay()
        torch.hpu.synchronize()
    assert y.tolist() == before
    graph.replay()
    assert y.tolist() == [value + 1 for value in before]
