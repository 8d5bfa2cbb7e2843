"""Arguments of graphs: each is walked, so that its tensors are inputs and all else is in the key, or it is refused."""

import contextlib
import functools
import queue
import threading
import types

import numpy as np
import pytest
import torch
from torch import nn

from tests.hpu import argument_tables as tables
from tests.hpu.argument_tables import WAYS, OnlySlots, Plain, attribute, graphed, number_of, tensor, with_attributes

wrap_function, make_graphed = torch.hpu.wrap_in_hpu_graph_func, torch.hpu.make_graphed_callables
OTHERWISE = {("cached", "gradient")}  # a graph for training takes an argument without its gradient


def ways(table):
    return [(way, name) for way in WAYS for name in table if (way, name) not in OTHERWISE]


@pytest.mark.parametrize("way, name", ways(tables.WALKED))
def test_tensors_in_an_argument_are_inputs(way, name, counted):
    make, use = tables.WALKED[name]
    function = graphed(way, use)
    x = tensor(1)
    arguments = [make(k) for k in (1, 1, 2, 3, 1)]
    assert [number_of(use(x, argument)) for argument in arguments] == [1, 1, 2, 3, 1]
    with counted() as moved:
        assert [number_of(function(x, argument)) for argument in arguments] == [1, 1, 2, 3, 1]
        assert number_of(function(x, a=make(2))) == 2
    # By position and by name; a parameter has a graph for its gradient, too.
    assert moved["graphs_captured"] in ((2, 4) if way == "cached" else (2,))


@pytest.mark.parametrize("way, name", ways(tables.KEYS))
def test_everything_else_is_in_the_key(way, name):
    make, use = tables.KEYS[name]
    function = graphed(way, use)
    x = tensor(1)
    expected = [number_of(use(x, make(k))) for k in (1, 2, 3, 3, 2, 1)]
    assert len(set(expected)) > 1
    assert [number_of(function(x, make(k))) for k in (1, 2, 3, 3, 2, 1)] == expected


def test_numbers_that_are_equal_and_not_the_same(counted):
    function = wrap_function(lambda x, a: 1 / (x * a))
    x = torch.ones(1, device="hpu")
    with counted(graphs_captured=4):
        for a in (0.0, -0.0, 0, -0.0, 0.0, float("nan"), float("nan")):
            assert repr(function(x, a).tolist()) == repr((1 / (x * a)).tolist())


def test_what_holds_no_tensor_is_the_object_itself(counted):
    """Also in an object that holds one, and where objects refer to each other. Those that are equal share a graph."""
    parent = Plain(1)
    parent.child = Plain(parent)
    function = wrap_function(lambda x, a: x * a.e.m if a.c is parent and a.c.child.m is parent else x)
    with counted(graphs_captured=1):
        for k in (1, 2):
            given = types.SimpleNamespace(t=tensor(0), c=parent, e=tables.Equal(3))
            assert number_of(function(tensor(k), given)) == 3 * k


class InC(threading.local):
    def __reduce_ex__(self, protocol):
        raise ValueError("not this one")


async def wait():
    yield


def nested(layout):
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(1)], layout=layout).to("hpu")


def with_a_set_of_children():
    made = Plain(tensor(1))
    made.children = {Plain(made)}
    return made


LIST = "give a list of what it yields"
SEEN = "what it holds can't be seen"
ORDER = "give a list or a dict"
# An argument, its place, its type, and the reason or remedy that the error names.
REFUSED = {
    "generator": (lambda: (tensor(k) for k in (1, 2)), "args[1]", "generator", LIST),
    "zip": (lambda: types.SimpleNamespace(rows=[0, zip([tensor(1)])]), "args[1].rows[1]", "zip", LIST),
    "view of a dict": (lambda: Plain({1: tensor(1)}.values()), "args[1].m", "dict_values", SEEN),
    "set": (lambda: Plain({tensor(1), tensor(2)}), "args[1].m", "set", ORDER),
    "frozenset": (lambda: [frozenset([(tensor(1),)])], "args[1][0]", "frozenset", ORDER),
    "set of children": (with_a_set_of_children, "args[1].children", "set", ORDER),
    "sparse tensor": (lambda: [torch.eye(2).to_sparse().to("hpu")], "args[1][0]", "torch.Tensor", "sparse"),
    "nested tensor": (lambda: nested(torch.strided), "args[1]", "torch.Tensor", "nested"),
    "jagged tensor": (lambda: tables.Pair(nested(torch.jagged)), "args[1][0]", "NestedTensor", "made of other tensors"),
    "mappingproxy": (lambda: types.MappingProxyType({"m": tensor(1)}), "args[1]", "mappingproxy", SEEN),
    "memoryview": (lambda: [memoryview(bytearray(2))], "args[1][0]", "memoryview", SEEN),
    "queue": (queue.SimpleQueue, "args[1]", "_queue.SimpleQueue", SEEN),
    "code that fails": (lambda: [InC()], "args[1][0]", "InC", "not this one"),
    "local cache": (lambda: functools.lru_cache(lambda: 1), "args[1]", "_lru_cache_wrapper", "no global object"),
    "asynchronous generator": (lambda: tables.closure(wait()), "args[1].__closure__['m']", "async_generator", SEEN),
    "graph": (torch.hpu.HPUGraph, "args[1]", "HPUGraph", SEEN),
    "generator of the host": (torch.Generator, "args[1]", "torch._C.Generator", "of the device hpu"),
    "key": (lambda: {(1, iter([])): 1}, "args[1].keys()[<tuple>][1]", "list_iterator", LIST),
    "default": (lambda: lambda x, y=iter([]): x, "args[1].__defaults__[0]", "list_iterator", LIST),  # noqa: B008
    "slot": (lambda: OnlySlots([iter([])]), "args[1].m[0]", "list_iterator", LIST),
    "attribute of a tensor": (lambda: with_attributes(tensor(1), r=iter([])), "args[1].r", "list_iterator", LIST),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_arguments_are_refused_with_their_place(name, counted):
    make, place, kind, remedy = REFUSED[name]
    x = tensor(1)
    argument = make()

    def work(x, a=None):
        calls.append(a)
        return x * 2

    calls = []
    module = torch.hpu.wrap_in_hpu_graph(nn.Module())
    users = {way: graphed(way, work) for way in WAYS} | {"module": torch.hpu.wrap_in_hpu_graph(module)}
    with counted(graphs_captured=0):
        for way, function in users.items():
            who = "ModuleCacher" if way == "cached" else "wrap_in_hpu_graph"
            for args, kwargs, where in (((argument,), {}, place), ((), {"a": argument}, place)):
                with pytest.raises(TypeError) as error:
                    function(x, *args, **kwargs)
                where = where if args else where.replace("args[1]", "kwargs['a']")
                for text in (f"{who}: ", where, f"{kind} can't be part of a graph: ", remedy, "An argument may be a"):
                    assert text in str(error.value)
    assert not calls
    assert users["wrapped"](x, argument, bypass_hpu_graphs=True).tolist() == [2, 2]
    assert users["cached"].eval()(x, argument).tolist() == [2, 2]


def test_an_error_names_function_argument_type_and_what_may_be_given():
    function = wrap_function(attribute)
    place = r"wrap_in_hpu_graph: attribute: kwargs\['a'\]\.batch\.m\[2\] of type map can't be part of a graph: "
    remedy = "the first call uses it up; give a list of what it yields. An argument may be a tensor on hpu, a number"
    with pytest.raises(TypeError, match=place + remedy):
        function(tensor(1), a=types.SimpleNamespace(batch=tables.Data((0, 1, map(len, [])))))


class Lossy(threading.local):
    def __init__(self, m):
        self.m = m

    def __reduce__(self):
        return Plain, (1,)


def test_a_copy_that_is_not_the_same_is_not_used():
    function = wrap_function(attribute)
    for k in (1, 2):
        with pytest.warns(RuntimeWarning, match="can't be copied") if k == 1 else contextlib.nullcontext():
            assert number_of(function(tensor(1), Lossy(tensor(k)))) == k


@pytest.mark.parametrize("way", WAYS)
def test_tensors_are_written_where_the_caller_has_them(way):
    function = graphed(way, lambda x, a: a[0].keys.add_(x) * 1)
    for k in (1, 2, 3):
        layer = tables.Layer(k)
        keys = layer.keys
        assert number_of(function(tensor(1), [layer])) == k + 1
        assert layer.keys is keys
        assert number_of(keys) == k + 1


def test_overlapping_arguments_that_are_only_read_are_in_a_graph(counted):
    function = wrap_function(lambda x, y: (x * y).sum())
    with counted(graphs_captured=2), torch.inference_mode():
        for k in (1, 2):
            a = torch.full((8,), float(k), device="hpu")
            assert function(a[:6], a[2:]).item() == 6 * k * k
            assert function(a[:4], a[4:]).item() == 4 * k * k


@pytest.mark.parametrize("way", WAYS)
def test_arguments_that_share_memory_have_no_graph_of_others(way):
    def write_beside(x, y):
        x.add_(1)
        return y * 1

    function = graphed(way, write_beside)
    for _ in range(3):
        assert function(torch.zeros(3, device="hpu"), torch.full((3,), 7.0, device="hpu")).tolist() == [7, 7, 7]
    a = torch.zeros(4, device="hpu")
    with pytest.warns(RuntimeWarning, match="shares memory"):
        assert function(a[:3], a[1:]).tolist() == [1, 1, 0]


def test_a_result_may_be_an_argument_of_the_next_call():
    """Its memory is that of the next call's results."""

    def work(x, a):
        a.add_(1)
        return {"x": x, "flipped": (x + a).flip(0)}

    function = wrap_function(work)
    plain = given = torch.arange(64.0, device="hpu")
    for _ in range(4):
        expected, got = work(plain, tensor(1)[:1]), function(given, tensor(1)[:1])
        assert torch.equal(got["x"], expected["x"])
        assert torch.equal(got["flipped"], expected["flipped"])
        plain, given = expected["flipped"], got["flipped"]


@pytest.mark.parametrize(
    "make", [Plain, OnlySlots, tables.output, tables.closure, lambda m: types.SimpleNamespace(m=[m, m])]
)
@pytest.mark.parametrize("way", WAYS)
def test_results_may_be_what_arguments_may_be(make, way, counted):
    def first(result):
        if isinstance(result, types.FunctionType):
            return result(1)
        return result.m[0] if isinstance(result.m, list) else result.m

    function = graphed(way, lambda x: make(x * 2))
    with counted(graphs_captured=1):
        results = [function(tensor(k)) for k in (0, 1, 2, 3)]
        numbers = [number_of(first(result)) for result in results]
    assert numbers == ([0, 2, 4, 6] if way == "transient" else [6, 6, 6, 6])
    assert type(results[-1]) is type(make(tensor(1)))


def test_a_result_that_a_caller_changes_is_whole_in_the_next_call():
    function = wrap_function(lambda x: {"m": x * 2, "names": ["a"], "n": Plain(x)})
    for k in (1, 2):
        result = function(tensor(k))
        assert [*result] == ["m", "names", "n"]
        assert number_of(result["m"]) == 2 * k
        assert result["names"] == ["a"]
        result["m"] = result["m"] * 5
        result["names"].append("b")
        del result["n"]


@pytest.mark.parametrize("result", [lambda x: (y for y in [x]), lambda x: {x * 1, x * 2}])
def test_other_results_run_without_a_graph(result):
    function = wrap_function(lambda x: {"rows": result(x)})
    for k in (1, 2):
        warned = pytest.warns(RuntimeWarning, match=r"its result\['rows'\] of type")
        with warned if k == 1 else contextlib.nullcontext():
            assert number_of(next(iter(function(tensor(k))["rows"]))) in (k, 2 * k)


def test_an_error_whose_text_needs_the_device_ends_the_capture():
    def work(x):
        raise KeyError(x)

    function = wrap_function(work)
    for _ in range(2):
        with pytest.raises(KeyError):
            function(tensor(1))
        assert not torch.hpu.is_current_stream_capturing()
    with pytest.raises(KeyError), torch.hpu.graph(torch.hpu.HPUGraph()):
        work(tensor(1))
    assert not torch.hpu.is_current_stream_capturing()


def test_gradients_reach_tensors_in_an_object():
    cached = torch.hpu.ModuleCacher()(tables.Weighted(attribute).to("hpu"))
    for k in (1, 2):
        m = tensor(k).requires_grad_()
        cached(tensor(3), Plain(m)).sum().backward()
        assert m.grad.tolist() == [3, 3]
    assert cached.weight.grad.tolist() == [9, 9]
    assert cached.graph_statistics()["captures"] == 1


class Scale(nn.Module):
    def forward(self, x, y=None, factor=1.0):
        return x * factor if y is None else x * factor - y


def test_graphed_callables_take_what_they_were_captured_with():
    x, y = tensor(3), tensor(1)
    module = make_graphed(Scale(), (x, y))
    for args, kwargs in (((x, y), {}), ((x,), {"y": y}), ((), {"y": y, "x": x}), ((x, y, 1.0), {})):
        assert module(*args, **kwargs).tolist() == [2, 2]
    for args, kwargs, error, text in (
        ((x, y, 2.0), {}, RuntimeError, r"args\[2\] is not what it was at the capture of Scale\.forward"),
        ((x, y), {"factor": 2.0}, RuntimeError, r"args\[2\] is not what it was"),
        ((x,), {"factor": y}, RuntimeError, r"args\[1\] is not what it was"),
        (([x], y), {}, RuntimeError, r"args\[0\] is not what it was"),
        ((x, x), {}, RuntimeError, "was captured with 2 tensors"),
        ((x, y), {"more": 1}, TypeError, "unexpected keyword"),
        ((tensor(3).requires_grad_(), y), {}, RuntimeError, "input 0 was captured without a gradient"),
        ((x, iter([y])), {}, TypeError, r"make_graphed_callables: Scale\.forward: args\[1\] of type list_iterator"),
    ):
        with pytest.raises(error, match=text):
            module(*args, **kwargs)
    function = make_graphed(lambda x, y, z: x + y * z, (x, y, x))
    assert function(y, x, y).tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="is not what it was at the capture"):
        function(y, x, x)


def test_an_array_that_is_changed_and_cannot_be_restored_is_an_error():
    function = wrap_function(lambda x, a: x * float(a.m.__iadd__(1)[0]))
    with pytest.raises(RuntimeError, match=r"args\[1\]\.m.* was changed by a function.*can't be restored"):
        function(tensor(1), Plain(np.zeros(2)))
