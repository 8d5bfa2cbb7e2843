"""Functions that change their arguments: what a replay can repeat is there after each call, the rest has no graph."""

import collections
import types

import numpy as np
import pytest
import torch

from tests.hpu import argument_tables as tables
from tests.hpu.argument_tables import WAYS, Frozen, OnlySlots, Plain, closure, graphed, output, tensor, with_attributes


def counted(a):
    a.m += 1
    return a.m


def read(x, a):
    """What no graph can hold, after a change of the argument."""
    return x * counted(a) if x.sum().item() else x


def reassigned(x, a):
    a.m = a.m + x
    return a.m * 1


def grown(x, a):
    a.layers[1].keys = torch.cat([a.layers[1].keys, x])
    return a.layers[1].keys.sum()


def put(x, a):
    a["out"] = x * a["m"]
    return a["out"]


def tagged(x, a):
    a[0].scale, a[0] = 3, a[0] * x
    return a[0] * 1


def gradient(x, a):
    a.grad = x if a.grad is None else a.grad + x
    return a.grad * 1


def counts():
    """A function with a variable of its own."""
    n = 0

    def count(x):
        nonlocal n
        n += 1
        return x * n

    return count


def self_made(m):
    return with_attributes(made := Plain(m), me=made)


def appended(value):
    """A function that appends this, and uses the length."""

    def change(x, a):
        a.append(value)
        return x * len(a)

    return change


def appended_and_summed(x, a):
    a.append(x)
    return sum(a)


def next_in_a_deque(x, a):
    a.append(a[-1] + 1)
    return x * a[-1]


def next_in_a_set(x, a):
    a.add(len(a))
    return x * len(a)


def counted_in_an_array(x, a):
    a += 1
    return x * float(a[0])


def array_and_dict_changed(x, a):
    array, entries = a
    entries.update(y=x)
    array += 1
    return x * float(array[0])


def moved_memory(x, a):
    a.data = x * 2
    return a * 1


def overlapping():
    memory = torch.zeros(8, device="hpu")
    return memory[:6], memory[2:]


def written_and_read(x, a):
    a[0].add_(1)
    return a[1].sum()


# An argument, a function that changes it other than by writing to a tensor, and the place that the warning names.
CHANGED = {
    "cache": (lambda: tables.Cache(1), grown, r"args\[1\]\.layers\[1\]\.keys"),
    "list": (lambda: [tensor(1)], appended_and_summed, r"args\[1\]"),
    "list without tensors": (lambda: [1], appended(2), r"args\[1\]"),
    "deque": (lambda: collections.deque([1], 3), next_in_a_deque, r"args\[1\]"),
    "set": (set, next_in_a_set, r"args\[1\]"),
    "bytearray": (bytearray, appended(1), r"args\[1\]"),
    "array": (lambda: np.zeros(2), counted_in_an_array, r"args\[1\]"),
    "array and dict": (lambda: [np.zeros(2), {}], array_and_dict_changed, r"args\[1\]\[0\]"),
    "counter": (lambda: Plain(0), lambda x, a: x * counted(a), r"args\[1\]\.m"),
    "counters": (lambda: (Plain(0), Plain(1)), lambda x, a: x * counted(a[0]) * counted(a[1]), r"args\[1\]\[0\]"),
    "variable of a closure": (counts, lambda x, a: a(x), r"args\[1\]\.__closure__\['n'\]"),
    "attribute of a function": (
        lambda: with_attributes(lambda: 0, m=0),
        lambda x, a: x * counted(a),
        r"args\[1\]\.__dict__\['m'\]",
    ),
    "read of a value": (lambda: Plain(0), read, "aten::item"),
    "memory of a tensor": (lambda: tensor(1), moved_memory, r"args\[1\]"),
    "sizes of a tensor": (lambda: tensor(1), lambda x, a: a.unsqueeze_(0).sum(), r"args\[1\]"),
    "attribute of a tensor": (lambda: with_attributes(tensor(1), m=0), lambda x, a: x * counted(a), r"args\[1\]"),
    "new attribute of a tensor": (lambda: [tensor(1)], tagged, r"args\[1\]\[0\]"),
    "gradient": (lambda: torch.zeros(2, device="hpu", requires_grad=True), gradient, r"args\[1\]"),
    "overlapping memory": (
        overlapping,
        written_and_read,
        r"args\[1\]\[0\], which shares memory with args\[1\]\[1\]",
    ),
}


def frozen_attribute_set(x, a):
    object.__setattr__(a, "m", x * 2)
    return a.m * 1


def variable_set(x, a):
    a.__closure__[0].cell_contents = x * 2
    return a(x)


def element_added_to(x, a):
    a[1] = a[1] + x
    return a[1] * 1


def pushed(x, a):
    a.append(x * 2)
    return a[0] + a[1]


def made_by_default(x, a):
    a["n"]
    return put(x, a)


def moved_to_the_end(x, a):
    a.move_to_end("a")
    return x * a["a"]


def added_to_and_returned(x, a):
    a.update(x=x * 2, y=a["m"] + x)
    return a


def reversed_in_place(x, a):
    a.reverse()
    return a[0] - a[1]


def moved_to_an_object(x, a):
    a["to"].m = a.pop("m", x)
    return x * 1


def put_into_an_empty_dict(x, a):
    a[0].update(y=x * 2)
    return a[0]["y"]


def given_tensors(x, a):
    a.m.y = [x, x * 2]
    return x * 3


def written_and_put(x, a):
    a.update(o=a["m"].add_(x))
    return a["m"] * 1


# An argument, and a function that changes it in a way that a replay can repeat.
REPLAYED = {
    "attribute": (lambda: Plain(tensor(1)), reassigned),
    "slot": (lambda: OnlySlots(tensor(1)), reassigned),
    "frozen dataclass": (lambda: Frozen(tensor(1)), frozen_attribute_set),
    "variable of a closure": (lambda: closure(tensor(1)), variable_set),
    "element": (lambda: [0, tensor(1)], element_added_to),
    "deque": (lambda: collections.deque([tensor(1), tensor(2)], 2), pushed),
    "dict": (lambda: {"m": tensor(2)}, put),
    "UserDict": (lambda: collections.UserDict(m=tensor(2)), put),
    "defaultdict": (lambda: collections.defaultdict(int, m=tensor(2)), made_by_default),
    "order": (lambda: collections.OrderedDict(a=1, b=2), moved_to_the_end),
    "output of a model": (lambda: output(tensor(1)), put),
    "dict that is returned": (  # as the modules of sentence-transformers do
        lambda: {"m": tensor(1)},
        added_to_and_returned,
    ),
    "exchange": (lambda: [tensor(1), tensor(2)], reversed_in_place),
    "move": (lambda: {"m": tensor(1), "to": Plain(None)}, moved_to_an_object),
    "without tensors": (lambda: [{}], put_into_an_empty_dict),
    "object without tensors": (lambda: Plain(Plain(1)), given_tensors),
    "deleted": (lambda: {"m": tensor(1), "labels": 3}, lambda x, a: x * a.pop("labels", 4)),
    "tensor that is written": (lambda: {"m": tensor(1)}, written_and_put),
    "object that refers to itself": (lambda: self_made(tensor(1)), lambda x, a: reassigned(x, a.me)),
}


def state(value, seen=()):
    """What a script sees of an argument."""
    if id(value) in seen:
        return ...
    seen = (*seen, id(value))
    if isinstance(value, torch.Tensor):
        grad = value.grad if value.is_leaf else None
        return value.tolist(), state(value.__dict__), None if grad is None else grad.tolist()
    if isinstance(value, types.FunctionType):
        return [state(c.cell_contents, seen) for c in value.__closure__ or ()], state(value.__dict__)
    if isinstance(value, dict | collections.UserDict):
        return [(key, state(part, seen)) for key, part in value.items()]
    if isinstance(value, list | tuple | collections.deque | np.ndarray):
        return [state(part, seen) for part in value]
    if isinstance(value, OnlySlots):
        return state(value.m)
    return state(vars(value), seen) if hasattr(value, "__dict__") else value


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REPLAYED)
def test_what_a_function_puts_into_an_argument_is_there(way, name, counted):
    make, work = REPLAYED[name]
    function = graphed(way, work)
    with counted() as moved:
        arguments = [(make(), make()) for _ in range(2)]
        for plain, given in arguments:  # what was given before is given again, and then another one
            for k in (1, 1, 2, 3):
                expected, got = work(tensor(k), plain), function(tensor(k), given)
                assert state(got) == state(expected)
                assert [state(b) for _, b in arguments] == [state(a) for a, _ in arguments]
                assert (got is given) == (expected is plain) or way == "compiled"
    assert moved["graph_replays"] >= 5


def test_tensors_that_stay_in_an_argument_are_the_caller_s():
    m = tensor(5)
    function = graphed("wrapped", REPLAYED["dict that is returned"][1])
    for k in (1, 2):
        given = {"m": m, "rows": [m]}
        result = function(tensor(k), given)
        assert result is given
        assert result["m"] is m is result["rows"][0]
        assert result["y"].tolist() == [5 + k] * 2


def test_gradients_flow_through_what_is_put_into_an_argument():
    cached = torch.hpu.ModuleCacher()(tables.Weighted(lambda x, a: a.update(y=x * 2)).to("hpu"))
    for k in (1, 2, 3):
        given = {}
        cached(tensor(k), given)
        given["y"].sum().backward()
    assert cached.weight.grad.tolist() == [12, 12]
    assert cached.graph_statistics()["hits"] == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CHANGED)
def test_a_function_that_changes_its_argument_otherwise_runs_without_a_graph(way, name, counted):
    """Each call has the effect of the function, once."""
    if (way, name) == ("cached", "gradient"):
        return  # no part of an argument there
    make, work, place = CHANGED[name]
    plain, given = make(), make()
    function = graphed(way, work)
    with counted(graphs_captured=0), pytest.warns(RuntimeWarning, match=place):
        for k in (1, 2, 3):
            assert function(tensor(k), given).tolist() == work(tensor(k), plain).tolist()
            assert state(given) == state(plain)


def test_a_function_that_leaves_what_cannot_be_walked():
    given = Plain(0)

    def change(x, a):
        a.m = iter([])
        return x

    function = graphed("wrapped", change)
    with pytest.warns(RuntimeWarning, match=r"it changes an argument: args\[1\]\.m of type list_iterator"):
        function(tensor(1), given)
    with pytest.raises(TypeError, match=r"args\[1\]\.m of type list_iterator"):
        function(tensor(1), given)
