"""Graphs that ran as recipes: the values of the CPU, whatever aliases what. One compilation for many programs."""

import itertools

import pytest
import torch

import habana_frameworks.torch.core as htcore
import openhpu

from .support import to_cpu
from .test_lazy_aliasing import PROGRAMS, N
from .test_rng import DRAWS, LOOKING, NOT_NATIVE


@pytest.fixture
def compiled(counted):
    """`compiled(function)`: what the function gives when its operators are known and it runs as one recipe."""

    def run(function):
        function()  # node by node, in pieces
        for _ in range(3):  # a step with a backward pass after two that were waited for would be handed over in pieces
            kept = torch.ones(1, device="hpu")
            htcore.mark_step()
            del kept
        with counted(graphs_flushed=1, recipe_hits=1, recipes_compiled=1, ops_node_by_node=0, ops_waited=0) as work:
            result = function()
            htcore.mark_step()
        assert work["ops_in_recipes"] == work["ops_recorded"] > 0
        return result

    return run


def test_aliases_of_inputs_and_of_what_the_graph_makes(compiled, counted):
    """All programs of test_lazy_aliasing in one recipe, on memory that is an input and on memory that it makes."""

    def inputs(start):
        made = [(torch.arange(float(N)) - start).to("hpu") for _ in PROGRAMS]
        torch.hpu.synchronize()
        return made

    def everything(given):
        pending = [program(g.clone()) for program, g in zip(PROGRAMS, given, strict=True)]
        return pending + [program(g) for program, g in zip(PROGRAMS, given, strict=True)]

    def expected(start):
        hosts = [torch.arange(float(N)) - start for _ in PROGRAMS]
        return everything(hosts), hosts

    given = [inputs(4), inputs(4)]
    left = list(given)
    actual = compiled(lambda: everything(left.pop()))
    results, changed = expected(4)
    torch.testing.assert_close(to_cpu(actual), results, rtol=0, atol=0)
    torch.testing.assert_close(to_cpu(given[0]), changed, rtol=0, atol=0)
    # The same recipe on other memory, with other contents.
    given = inputs(7)
    with counted(recipe_hits=1, recipes_compiled=0):
        actual = everything(given)
        torch.hpu.synchronize()
    results, changed = expected(7)
    torch.testing.assert_close(to_cpu(actual), results, rtol=0, atol=0)
    torch.testing.assert_close(to_cpu(given), changed, rtol=0, atol=0)


def test_random_numbers_are_those_of_the_nodes(compiled, counted):
    names = sorted(DRAWS.keys() - LOOKING - NOT_NATIVE)
    drawn = []

    def remember(seed=4):
        torch.manual_seed(seed)
        drawn.append([t.clone() for t in [DRAWS[name]() for name in names]])
        return drawn[-1]

    actual = compiled(remember)
    by_nodes = drawn[0]
    for name, a, b in zip(names, to_cpu(actual), to_cpu(by_nodes), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, msg=name)
    with counted(recipe_hits=1, recipes_compiled=0, ops_node_by_node=0):
        others = remember(5)
        htcore.mark_step()
    assert not any(torch.equal(a.cpu(), b) for a, b in zip(others, to_cpu(by_nodes), strict=True))


def test_a_printed_recipe_is_a_program_that_computes_the_same(compiled):
    x = torch.arange(12.0).view(3, 4)
    y = torch.arange(4.0) - 1
    on_hpu = x.to("hpu"), y.to("hpu")

    def step(a, b):
        z = (a * 3 + b).relu()
        z[1:].sub_(b)
        return z, (z @ a.t()).softmax(1)

    actual = to_cpu(compiled(lambda: step(*on_hpu)))
    recipe = openhpu.recipes()[0]
    assert recipe.operators >= 6
    assert recipe.library.is_file()
    names = {}
    exec(compile(str(recipe), "recipe.py", "exec"), names)
    results = names["recipe"](x.clone(), y.clone())
    for expected in step(x, y):
        assert any(r.shape == expected.shape and torch.allclose(r, expected) for r in results)
    for a in actual:
        assert any(r.shape == a.shape and torch.allclose(r, a) for r in results)


@pytest.mark.usefixtures("strict_indices")
def test_an_error_in_a_recipe_is_raised_and_the_device_goes_on(counted):
    table = torch.arange(8.0, device="hpu").view(4, 2)
    good, bad = torch.tensor([1, 2], device="hpu"), torch.tensor([1, 99], device="hpu")

    def look(index):
        return table.index_select(0, index) * 2 + 1

    look(good)
    torch.hpu.synchronize()
    with counted(recipe_hits=1):
        assert look(good).tolist() == [[5.0, 7], [9, 11]]
    with pytest.raises((RuntimeError, IndexError), match=r"out of (range|bounds)"):
        look(bad).tolist()
    torch.hpu.synchronize()
    assert look(good).tolist() == [[5.0, 7], [9, 11]]


@pytest.mark.filterwarnings("ignore")  # it runs node by node, and says so
@pytest.mark.parametrize("count", [2, 3])
def test_tensors_that_change_places_get_what_the_others_had(count):
    given = [torch.full((64, 64), float(k), device="hpu") for k in range(count)]
    torch.hpu.synchronize()

    def rotate():
        kept = given[0].clone()
        for to, source in itertools.pairwise(given):
            to.copy_(source)
        given[-1].copy_(kept)

    for turn in range(1, 6):
        rotate()
        torch.hpu.synchronize()
        assert [t.unique().tolist() for t in given] == [[float((k + turn) % count)] for k in range(count)]
