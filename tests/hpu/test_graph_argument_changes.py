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


# An argument, a function that changes it other than by writing to a tensor, and the place that the warning names.
CHANGED = {
    "cache": (lambda: tables.Cache(1), grown, r"args\[1\]\.layers\[1\]\.keys"),
    "list": (lambda: [tensor(1)], lambda x, a: (a.append(x), sum(a))[1], r"args\[1\]"),
    "list without tensors": (lambda: [1], lambda x, a: (a.append(2), x * len(a))[1], r"args\[1\]"),
    "deque": (lambda: collections.deque([1], 3), lambda x, a: (a.append(a[-1] + 1), x * a[-1])[1], r"args\[1\]"),
    "set": (set, lambda x, a: (a.add(len(a)), x * len(a))[1], r"args\[1\]"),
    "bytearray": (bytearray, lambda x, a: (a.append(1), x * len(a))[1], r"args\[1\]"),
    "array": (lambda: np.zeros(2), lambda x, a: (a.__iadd__(1), x * float(a[0]))[1], r"args\[1\]"),
    "array and dict": (
        lambda: [np.zeros(2), {}],
        lambda x, a: (a[1].update(y=x), x * float(a[0].__iadd__(1)[0]))[1],
        r"args\[1\]\[0\]",
    ),
    "counter": (lambda: Plain(0), lambda x, a: x * counted(a), r"args\[1\]\.m"),
    "counters": (lambda: (Plain(0), Plain(1)), lambda x, a: x * counted(a[0]) * counted(a[1]), r"args\[1\]\[0\]"),
    "variable of a closure": (counts, lambda x, a: a(x), r"args\[1\]\.__closure__\['n'\]"),
    "attribute of a function": (
        lambda: with_attributes(lambda: 0, m=0),
        lambda x, a: x * counted(a),
        r"args\[1\]\.__dict__\['m'\]",
    ),
    "read of a value": (lambda: Plain(0), read, "aten::item"),
    "memory of a tensor": (lambda: tensor(1), lambda x, a: (setattr(a, "data", x * 2), a * 1)[1], r"args\[1\]"),
    "sizes of a tensor": (lambda: tensor(1), lambda x, a: a.unsqueeze_(0).sum(), r"args\[1\]"),
    "attribute of a tensor": (lambda: with_attributes(tensor(1), m=0), lambda x, a: x * counted(a), r"args\[1\]"),
    "new attribute of a tensor": (lambda: [tensor(1)], tagged, r"args\[1\]\[0\]"),
    "gradient": (lambda: torch.zeros(2, device="hpu", requires_grad=True), gradient, r"args\[1\]"),
    "overlapping memory": (
        lambda: (a := torch.zeros(8, device="hpu"), (a[:6], a[2:]))[1],
        lambda x, a: (a[0].add_(1), a[1].sum())[1],
        r"args\[1\]\[0\], which shares memory with args\[1\]\[1\]",
    ),
}

# An argument, and a function that changes it in a way that a replay can repeat.
REPLAYED = {
    "attribute": (lambda: Plain(tensor(1)), reassigned),
    "slot": (lambda: OnlySlots(tensor(1)), reassigned),
    "frozen dataclass": (lambda: Frozen(tensor(1)), lambda x, a: (object.__setattr__(a, "m", x * 2), a.m * 1)[1]),
    "variable of a closure": (
        lambda: closure(tensor(1)),
        lambda x, a: (setattr(a.__closure__[0], "cell_contents", x * 2), a(x))[1],
    ),
    "element": (lambda: [0, tensor(1)], lambda x, a: (a.__setitem__(1, a[1] + x), a[1] * 1)[1]),
    "deque": (lambda: collections.deque([tensor(1), tensor(2)], 2), lambda x, a: (a.append(x * 2), a[0] + a[1])[1]),
    "dict": (lambda: {"m": tensor(2)}, put),
    "UserDict": (lambda: collections.UserDict(m=tensor(2)), put),
    "defaultdict": (lambda: collections.defaultdict(int, m=tensor(2)), lambda x, a: (a["n"], put(x, a))[1]),
    "order": (lambda: collections.OrderedDict(a=1, b=2), lambda x, a: (a.move_to_end("a"), x * a["a"])[1]),
    "output of a model": (lambda: output(tensor(1)), put),
    "dict that is returned": (  # as the modules of sentence-transformers do
        lambda: {"m": tensor(1)},
        lambda x, a: (a.update(x=x * 2, y=a["m"] + x), a)[1],
    ),
    "exchange": (lambda: [tensor(1), tensor(2)], lambda x, a: (a.reverse(), a[0] - a[1])[1]),
    "move": (
        lambda: {"m": tensor(1), "to": Plain(None)},
        lambda x, a: (setattr(a["to"], "m", a.pop("m", x)), x * 1)[1],
    ),
    "without tensors": (lambda: [{}], lambda x, a: (a[0].update(y=x * 2), a[0]["y"])[1]),
    "object without tensors": (lambda: Plain(Plain(1)), lambda x, a: (setattr(a.m, "y", [x, x * 2]), x * 3)[1]),
    "deleted": (lambda: {"m": tensor(1), "labels": 3}, lambda x, a: x * a.pop("labels", 4)),
    "tensor that is written": (lambda: {"m": tensor(1)}, lambda x, a: (a.update(o=a["m"].add_(x)), a["m"] * 1)[1]),
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
        assert result is given and result["m"] is m is result["rows"][0]
        assert result["y"].tolist() == [5 + k] * 2


def test_gradients_flow_through_what_is_put_into_an_argument():
    cached = torch.hpu.ModuleCacher()(tables.Weighted(lambda x, a: a.update(y=x * 2)).to("hpu"))
    for k in (1, 2, 3):
        given = {}
        cached(tensor(k), given)
        given["y"].sum().backward()
    assert cached.weight.grad.tolist() == [12, 12] and cached.graph_statistics()["hits"] == 2


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
    function = graphed("wrapped", lambda x, a: (setattr(a, "m", iter([])), x)[1])
    with pytest.warns(RuntimeWarning, match=r"it changes an argument: args\[1\]\.m of type list_iterator"):
        function(tensor(1), given)
    with pytest.raises(TypeError, match=r"args\[1\]\.m of type list_iterator"):
        function(tensor(1), given)
