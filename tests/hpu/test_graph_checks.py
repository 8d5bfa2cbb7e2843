"""OPENHPU_CHECK_GRAPHS: broken uses of HPU graphs are named with operator, line and reason; right ones stay silent."""

import types

import pytest
import torch
from torch import nn

from openhpu import settings
from openhpu.capture.hpu_graphs import check, compared
from tests.hpu.support import capture, listening, memory_in_use

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # one at the first difference
wrap, wrap_function = torch.hpu.wrap_in_hpu_graph, torch.hpu.wrap_in_hpu_graph_func
make_graphed, ModuleCacher = torch.hpu.make_graphed_callables, torch.hpu.ModuleCacher
SCALE = 2.0


@pytest.fixture
def seen():
    """The events of checks, which are on; each is (outcome, operator, text)."""
    compared._said.clear()
    found = []

    def hear(event):
        found.append((*(event.params[name] for name in ("outcome", "op", "text")), event.site))

    with listening(("graph_check", hear)), settings.overridden("OPENHPU_CHECK_GRAPHS", True):
        yield found
    check._suspects.clear()


def ones(*sizes, value=1.0):
    return torch.full(sizes, value, device="hpu")


class Scaled(nn.Module):
    """What a script may change after the capture."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.scale = 2.0
        self.relu = False
        self.options = {"bias": 1.0}
        self.mask = ones(4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        x = self.linear(x) * self.scale
        if self.relu:
            x = torch.relu(x)
        return x * self.mask + self.options["bias"] + torch.tensor([self.scale] * 4).to("hpu")


def scaled(change):
    """A call of a wrapped module, a change of it, and another call."""

    def script():
        model = wrap(Scaled().to("hpu").eval())
        with torch.no_grad():
            model(ones(2, 4)).sum().item()
            change(model)
            model(ones(2, 4)).sum().item()

    return script


def set_to(**values):
    return scaled(lambda model: [setattr(model, name, value) for name, value in values.items()])


def replace_weight(model):
    model.linear.weight = nn.Parameter(ones(4, 4))


def move_weight(model):
    model.linear.weight.data = ones(4, 4)


def around(function, change):
    """A call of a wrapped function, a change, and another call."""
    f = wrap_function(function)
    f(ones(4)).sum().item()
    change()
    f(ones(4)).sum().item()


def global_number():
    global SCALE
    SCALE = 2.0
    around(lambda x: x * SCALE, lambda: globals().update(SCALE=3.0))


def number_of_a_closure():
    scale = ones(3).max().item()

    def change():
        nonlocal scale
        scale = 7.0

    around(lambda x: x + scale, change)


def learning_rate():
    parameter = nn.Parameter(ones(4))
    parameter.grad = ones(4)
    optimizer = torch.optim.SGD([parameter], lr=0.5, foreach=False)
    step = wrap_function(lambda: optimizer.step())
    step()
    optimizer.param_groups[0]["lr"] = 0.25
    step()


def stale_argument_of_a_bound_object():
    batch = types.SimpleNamespace(ids=ones(4))
    around(lambda x: x * batch.ids, lambda: setattr(batch, "ids", ones(4, value=3.0)))


def overwritten_result():
    f = wrap_function(lambda x: x + 1)
    first = f(ones(4))
    second = f(ones(4, value=2.0))
    (first + second).sum().item()


def overwritten_result_of_training():
    f = make_graphed(nn.Linear(4, 4).to("hpu"), (ones(2, 4),))
    kept = [f(ones(2, 4, value=float(k))) for k in range(3)]
    torch.stack(kept).sum().item()


def number_in_training():
    model = Scaled().to("hpu")
    graphed = make_graphed(model, (ones(2, 4),))
    graphed(ones(2, 4)).sum().backward()
    model.scale = 5.0
    graphed(ones(2, 4)).sum().backward()


def forward_twice():
    f = make_graphed(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).to("hpu"), (ones(2, 4),))
    (f(ones(2, 4)).sum() + f(ones(2, 4, value=2.0)).sum()).backward()


def value_read_later():
    state = types.SimpleNamespace(looks=False)
    around(lambda x: x * x.max().item() if state.looks else x * 2, lambda: setattr(state, "looks", True))


BROKEN = {
    "number": (set_to(scale=3.0), "aten::mul", "self.scale was 2.0 at the capture and is 3.0 now"),
    "number in a dict": (
        scaled(lambda m: m.options.update(bias=2.0)),
        "aten::add",
        "self.options.bias was 1.0 at the capture",
    ),
    "branch": (set_to(relu=True), "aten::relu", "a replay runs no Python code; self.relu was False"),
    "stale tensor": (set_to(mask=2), "aten::mul", ""),
    "other tensor": (lambda: set_to(mask=ones(4, value=3.0))(), "aten::mul", "self.mask is another tensor now"),
    "replaced weight": (scaled(replace_weight), "aten::", "self.linear.weight is another tensor now"),
    "moved weight": (scaled(move_weight), "aten::", "a tensor has other memory now"),
    "global number": (global_number, "aten::mul", "SCALE was 2.0 at the capture and is 3.0 now"),
    "number of a closure": (number_of_a_closure, "aten::add", "scale was 1.0 at the capture and is 7.0 now"),
    "learning rate": (learning_rate, "aten::add_", "lr was 0.5 at the capture and is 0.25 now"),
    "stale argument": (stale_argument_of_a_bound_object, "aten::mul", "batch.ids is another tensor now"),
    "overwritten result": (overwritten_result, "aten::add", "result 0 is still in use"),
    "overwritten result of training": (overwritten_result_of_training, "aten::", "result 0 is still in use"),
    "number in training": (number_in_training, "aten::mul", "self.scale was 2.0 at the capture and is 5.0 now"),
    "forward twice": (forward_twice, "", "forward ran again before this backward"),
    "value read later": (value_read_later, "", "does now what no graph can hold"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_script_is_named(seen, name):
    script, op, reason = BROKEN[name]
    script()
    different = [one for one in seen if one[0] in ("different", "overwritten")]
    assert different, seen
    assert any(op in one[1] and reason in one[2] for one in different), different
    assert all(one[3] and one[3][0] == __file__ for one in different)


def loop_with_one_name():
    f = wrap_function(lambda x: x * 2)
    for k in range(4):
        y = f(ones(4, value=float(k)))
    return y.tolist()


def read_before_the_next_call():
    f = wrap_function(lambda x: x * 2)
    first = f(ones(4))
    total = first.sum().item()
    second = f(ones(4, value=5.0))
    return total, second.tolist()


def clones():
    f = wrap_function(lambda x: (x * 2)[1:])
    return [one.tolist() for one in [f(ones(4, value=float(k))).clone() for k in range(3)]]


def key_value_cache():
    def step(cache, x, at):
        cache.index_copy_(0, at, x)
        return cache.sum(0)

    f = wrap_function(step)
    cache = torch.zeros(8, 4, device="hpu")
    found = [f(cache, ones(1, 4, value=float(k)), torch.tensor([k], device="hpu")).tolist() for k in range(4)]
    return found, cache.tolist()


def updates_in_place():
    parameter = nn.Parameter(ones(4))
    grad = ones(4)
    parameter.grad = grad
    optimizer = torch.optim.AdamW([parameter], lr=torch.tensor(0.1, device="hpu"), capturable=True)
    optimizer.step()
    step = wrap_function(lambda: optimizer.step())
    for _ in range(3):
        step()
    return parameter.tolist(), optimizer.state[parameter]["step"].item()


def graphs_that_share_arguments_and_results():
    f, g = wrap_function(lambda x: x * 2), wrap_function(lambda x: (x + 1, x[:1]))
    y = ones(4)
    for _ in range(3):
        y = g(f(y))[0]
    return y.tolist()


def by_hand():
    x, weight = ones(4), ones(4)
    first, y = capture(lambda: torch.nn.functional.dropout(x * 3, 0.5) + weight)
    second, z = capture(lambda: weight.add_(y))
    for k in range(3):
        x.fill_(k)
        first.replay()
        second.replay()
    return y.tolist(), z.tolist(), torch.rand(2, device="hpu").tolist()


def training(graph):
    torch.manual_seed(3)
    model = graph(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)).to("hpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = model(torch.randn(4, 4).to("hpu")).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, [t.tolist() for t in model.state_dict().values()]


RIGHT = (
    loop_with_one_name,
    read_before_the_next_call,
    clones,
    key_value_cache,
    updates_in_place,
    graphs_that_share_arguments_and_results,
    by_hand,
)
RIGHT = {script.__name__: script for script in RIGHT} | {
    "make_graphed_callables": lambda: training(lambda model: make_graphed(model, (torch.zeros(4, 4, device="hpu"),))),
    "ModuleCacher": lambda: training(ModuleCacher()),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_script_is_as_it_would_be_without(seen, name):
    torch.manual_seed(1)
    checked = RIGHT[name]()
    assert {one[0] for one in seen} == {"equal"}, seen
    with settings.overridden("OPENHPU_CHECK_GRAPHS", False):
        torch.manual_seed(1)
        assert RIGHT[name]() == checked


def test_python_state_and_memory_are_as_without(seen):
    model = wrap(Scaled().to("hpu").eval())
    with torch.no_grad():
        model(ones(2, 4))
        before = memory_in_use()
        calls = model.calls
        for _ in range(3):
            model(ones(2, 4))
    assert (memory_in_use(), model.calls) == (before, calls)
    assert [one[0] for one in seen] == ["equal"] * 4


def test_one_warning_at_the_first_difference(seen):
    with pytest.warns(RuntimeWarning, match=r"HPU graph .* differs from the plain call \(aten::mul") as warned:
        set_to(scale=3.0)()
        set_to(scale=4.0)()
    assert len(warned) == 1
    assert len([one for one in seen if one[0] == "different"]) == 2


OUT_OF_MEMORY = """
seen = []
openhpu.events.subscribe("graph_check", lambda e: seen.append(e.params["outcome"]))
x = torch.ones((56 << 20) // 4, device="hpu")
{function}
for k in range(3):
    x.fill_(k)
    y = f()
    assert y[0].item() == 2 * k, y[0].item()
print({{*seen}})
"""
FUNCTIONS = {
    "wrapped": "g = torch.hpu.wrap_in_hpu_graph_func(lambda x: x * 2)\ndef f(): return g(x)",
    "by hand": "g = torch.hpu.HPUGraph()\nwith torch.hpu.graph(g): a, b = x * 2, x * 3\ndef f(): g.replay(); return a",
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_without_memory_for_the_copies_the_run_goes_on(script, kind):
    code = OUT_OF_MEMORY.format(function=FUNCTIONS[kind])
    result = script(code, warnings="default", OPENHPU_MEMORY_GB="0.25", OPENHPU_CHECK_GRAPHS="1")
    assert result.out == "{'unchecked'}"
    assert result.err.count("there is no memory for the copies") == 1


COLLECTIVE = """
import torch.distributed as dist
seen = []
openhpu.events.subscribe("graph_check", lambda e: seen.append((e.params["outcome"], e.params["text"])))
dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
def function(x):
    x = x + 1
    dist.all_reduce(x)
    return x * 2
x = torch.ones(4, device="hpu")
print(torch.hpu.wrap_in_hpu_graph_func(function)(x).sum().item())
g, y = capture(lambda: function(x))
g.replay()
print(y.sum().item(), len(seen), *{*seen})
dist.destroy_process_group()
"""


def test_a_graph_with_collectives_is_checked_on_no_rank(script):
    first, second = script(COLLECTIVE, warnings="ignore", OPENHPU_CHECK_GRAPHS="1").out.splitlines()
    assert first == "16.0"
    assert second == f"16.0 2 {('unchecked', compared.COLLECTIVES)}"


def test_a_graph_by_hand_that_computes_otherwise_is_named(seen, monkeypatch):
    g, _ = capture(lambda: ones(4) * 2)
    site = (__file__, 1)
    monkeypatch.setattr(type(g), "unequal", lambda self: [("aten::mul", site, torch.ones(4), torch.zeros(4))])
    g.replay()
    assert seen[-1][:2] == ("different", "aten::mul")
    assert "4 of 4 elements, by up to 1" in seen[-1][2]
