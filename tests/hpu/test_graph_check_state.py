"""OPENHPU_CHECK_GRAPHS changes nothing for the script: what a plain call does is undone, or there is none."""

import pytest
import torch
from torch import nn

from openhpu import settings
from tests.hpu import mutable_kinds
from tests.hpu.mutable_kinds import KINDS, NAMED, STALE
from tests.hpu.support import checked_graphs

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture
def seen():
    """The outcomes of checks, which are on, with what they say."""
    with checked_graphs() as found:
        yield found


def run(make, wrap):
    """What four calls of a graphed function return, and what a script then sees of what it changes."""
    mutable_kinds.reset()
    torch.manual_seed(0)
    function, look = make()
    f = wrap(function)
    results = [f(torch.full((4,), float(k), device="hpu")).tolist() for k in range(4)]
    return results, look()


@pytest.mark.parametrize("name", KINDS)
def test_a_script_is_as_without_the_check(seen, name, capfd, caplog):
    """Of every kind of object that a function can change."""
    outcomes, shown = [], []
    for checks in (True, False):
        caplog.clear()
        with settings.overridden("OPENHPU_CHECK_GRAPHS", checks):
            outcomes.append(run(KINDS[name], torch.hpu.wrap_in_hpu_graph_func))
        shown.append((capfd.readouterr(), [*caplog.messages]))
    assert outcomes[0] == outcomes[1]
    assert shown[0] == shown[1]
    expected = "unchecked" if name in NAMED else "different" if name in STALE else "equal"
    assert {outcome for outcome, _ in seen[1:]} == {expected} and len(seen) == 4, seen
    assert all(NAMED.get(name, "") in text for _, text in seen), seen


class Marked:
    seen = []  # noqa: RUF012

    def touch(self):
        self.seen.append(len(self.seen))


def test_objects_of_arguments_are_as_without_the_check(seen):
    def call_of(checks):
        Marked.seen.clear()
        marked, f = Marked(), torch.hpu.wrap_in_hpu_graph_func(lambda x, marked: (marked.touch(), x * 2)[1])
        with settings.overridden("OPENHPU_CHECK_GRAPHS", checks):
            return [f(torch.ones(2, device="hpu"), marked).tolist() for _ in range(3)], [*Marked.seen]

    assert call_of(True) == call_of(False)
    assert {outcome for outcome, _ in seen} == {"equal"}


def test_training_is_as_without_the_check(seen):
    """Objects that a graphed module and its hooks change, in make_graphed_callables and ModuleCacher."""

    class Counted(nn.Module):
        made = 0

        def __init__(self):
            super().__init__()
            self.linear, self.steps, self.host = nn.Linear(4, 4), [], torch.zeros(2)

        def forward(self, x):
            Counted.made += 1
            self.steps.append(len(self.steps))
            self.host += 1
            return self.linear(x)

    def train(graph):
        torch.manual_seed(0)
        Counted.made = 0
        module = graph(Counted().to("hpu"))
        for _ in range(3):
            module(torch.ones(2, 4, device="hpu")).sum().backward()
        return Counted.made, module.steps, module.host.tolist(), module.linear.weight.grad.tolist()

    graphs = [
        lambda module: torch.hpu.make_graphed_callables(module, (torch.ones(2, 4, device="hpu"),)),
        torch.hpu.ModuleCacher(),
    ]
    for graph in graphs:
        checked = train(graph)
        with settings.overridden("OPENHPU_CHECK_GRAPHS", False):
            assert train(graph) == checked
    assert {outcome for outcome, _ in seen} == {"equal"}, seen


def test_a_dict_that_the_script_walks_through_can_be_walked_on(seen):
    held = {"a": 0, "b": 0}

    def function(x):
        held["a"] += 1
        return x * 2

    f = torch.hpu.wrap_in_hpu_graph_func(function)
    assert [key for key in held if f(torch.ones(2, device="hpu")) is not None] == ["a", "b"]
    assert held == {"a": 1, "b": 0} and {outcome for outcome, _ in seen} == {"equal"}


def test_a_warning_is_shown_as_often_as_without_the_check(seen):
    import warnings

    def function(x):
        warnings.warn("of the function", UserWarning, stacklevel=1)
        return x * 2

    f = torch.hpu.wrap_in_hpu_graph_func(function)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(3):
            f(torch.ones(2, device="hpu"))
    assert [str(one.message) for one in shown].count("of the function") == 1
    assert {outcome for outcome, _ in seen} == {"equal"}


class Stateful(nn.Module):
    scale = 2.0

    def __init__(self):
        super().__init__()
        self.n, self.name = 1, "one"

    def forward(self, x):
        return x * self.scale, self.n, {"name": self.name, "length": len(self.name)}


VALUES = {  # what changes, and the text of the difference
    "a number": (dict(n=2), "its result[1] is 2 of the plain call and 1 of a replay"),
    "a string": (dict(name="two"), "its result[2]['name'] is 'two' of the plain call and 'one' of a replay"),
    "a length": (dict(name="three"), "is 'three' of the plain call"),
    "a type": (dict(n=True), "its result[1] is True of the plain call and 1 of a replay"),
    "a class attribute": (dict(scale=3.0), "self.scale was 2.0 at the capture and is 3.0 now"),
}


@pytest.mark.parametrize("name", VALUES)
def test_results_that_are_no_tensors_are_compared(seen, name):
    change, text = VALUES[name]
    module = torch.hpu.wrap_in_hpu_graph(Stateful().to("hpu"))
    module(torch.ones(2, device="hpu"))
    module(torch.ones(2, device="hpu"))
    assert [outcome for outcome, _ in seen] == ["equal", "equal"]
    for key, value in change.items():
        setattr(module, key, value)
    module(torch.ones(2, device="hpu"))
    assert seen[-1][0] == "different" and text in seen[-1][1], seen[-1]


def test_a_changed_class_is_named(seen):
    module = torch.hpu.wrap_in_hpu_graph(Stateful().to("hpu"))
    module(torch.ones(2, device="hpu"))
    try:
        Stateful.scale = 3.0
        module(torch.ones(2, device="hpu"))
    finally:
        Stateful.scale = 2.0
    assert seen[-1][0] == "different" and "self.scale was 2.0 at the capture and is 3.0 now" in seen[-1][1], seen[-1]


class Output:
    def __init__(self, x, n):
        self.x, self.n, self.tags = x, n, {"a", "b"}


def test_output_objects_are_compared_by_what_they_hold(seen):
    state = {"n": 1}
    f = torch.hpu.wrap_in_hpu_graph_func(lambda x: Output(x * 2, state["n"]))
    for _ in range(2):
        assert f(torch.ones(2, device="hpu")).n == 1
    assert [outcome for outcome, _ in seen] == ["equal", "equal"]
    state["n"] = 2
    f(torch.ones(2, device="hpu"))
    assert seen[-1][0] == "different" and "its result.n is 2" in seen[-1][1]


def test_a_result_that_was_copied_to_the_host_is_not_in_use(seen):
    f = torch.hpu.wrap_in_hpu_graph_func(lambda x: x * 2)
    kept = f(torch.ones(4, device="hpu"))
    copy = kept.to("cpu", non_blocking=True)
    torch.hpu.synchronize()
    f(torch.zeros(4, device="hpu")).sum().item()
    assert copy.tolist() == [2.0] * 4 and kept is not None
    assert {outcome for outcome, _ in seen} == {"equal"}, seen
