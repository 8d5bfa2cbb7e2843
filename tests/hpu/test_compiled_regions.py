"""A layer that repeats is compiled once: values of the nodes, one library for all layers, and a cache of regions."""

import gc
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import habana_frameworks.torch.core as htcore
import openhpu
from openhpu import _C, settings

from .support import both_ways, capture, compiled, counted, heard

COMMON = """
    import json
    index = torch.tensor([3, -1, 0], device="hpu")  # -1: a row of zeros, which is counted
    table = torch.randn(4, 3).to("hpu")
    def layer(x, weight):
        y = torch.dropout(x @ weight, 0.25, True)
        x.add_(y).clamp_(-2, 2)  # it writes its input
        z = torch.relu(x) * 0.5 - torch.nn.functional.embedding(index, table)
        return torch.maximum(z, x.t()) + 1
    def model(start, weights):
        torch.manual_seed(3)
        x, kept = start.clone(), []
        for n, weight in enumerate(weights):
            x = layer(x, weight)
            if n == 2:
                kept.append(x.view(-1)[1:3])  # one of the layers makes a result of the graph
        return [start.mul_(2), x, *kept]  # a result in place
    def weights(count):
        return [torch.randn(3, 3, generator=torch.Generator().manual_seed(n)).to("hpu") for n in range(count)]
    def run(count, given):
        start = torch.ones(3, 3, device="hpu")
        htcore.mark_step()
        results = model(start, given)
        htcore.mark_step()
        return [t.cpu() for t in results]
    def recipes():
        found = [json.loads(path.read_text()) for path in Path("cache").glob("*/manifest.json")]
        return {kind: sorted(m["key"] for m in found if bool(m["calls"]) == kind) for kind in (False, True)}
    def loaded():
        return set(re.findall(r"\\S+/recipe[-0-9]*\\.so", Path("/proc/self/maps").read_text()))
"""

MODE = {"OPENHPU_COMPILE": "sync", "PT_HPU_LAZY_MODE": "1", "PT_HPU_RECIPE_CACHE_CONFIG": "cache"}


def test_layers_are_compiled_once(script):
    """For a model of 6 layers; one of 9 finds them on disk, and loads nothing more."""
    code = """
    _C.configure_graphs("off", 1000, 10000)
    by_nodes = {count: run(count, weights(count)) for count in (6, 9)}
    _C.configure_graphs("sync", 1000, 10000)
    seen = {}
    for count in (6, 9):
        given = weights(count)
        run(count, given)
        with counted(ops_node_by_node=0) as work:
            seen[count] = run(count, given)
        assert work["ops_in_recipes"] == work["ops_recorded"] > 9 * count
        regions, libraries = recipes(), loaded()
        if count == 6:
            first = regions[False], libraries
    for count, results in seen.items():
        for ours, theirs in zip(results, by_nodes[count], strict=True):
            assert torch.equal(ours, theirs), (count, ours, theirs)
    assert {recipe.calls > recipe.operators / 12 for recipe in openhpu.recipes() if recipe.operators > 50} == {True}
    assert (regions[False], libraries) == first
    assert len(regions[True]) == 2
    print(len(first[0]), len(libraries))
    """
    regions, libraries = map(int, script(COMMON + code, **MODE).out.split())
    assert 1 <= libraries <= regions <= 3


# In this process: all graphs call one region, unless a test says so. Each has its own number of layers.
SIDE = 6


def layer(x, weight, scale=1.5):
    y = x
    for number in range(3):
        y = torch.relu(y @ weight) * (scale + number / 64)
    return x + y


def layers(x, weights):
    for weight in weights:
        x = layer(x, weight)
    return x


def weights_of(count, **options):
    """The first ones are the same for every count."""
    torch.manual_seed(0)
    return [torch.rand(SIDE, SIDE).div_(SIDE * 0.7).to("hpu", **options) for _ in range(count)]


def given(count):
    """The input of a model of so many layers, and its weights."""
    weights = weights_of(count)
    return torch.rand(SIDE, SIDE).to("hpu"), weights


def libraries():
    """The libraries of recipes that are loaded."""
    return set(re.findall(r"\S+/recipe[-0-9]*\.so", Path("/proc/self/maps").read_text()))


def ran(step, times=3):
    """The results of `step` as a recipe: the last time all of its operators are in one."""
    for _ in range(times - 1):
        results = step()  # kept: what dies is another graph
        htcore.mark_step()
    with counted(ops_node_by_node=0) as work:
        results = step()
        htcore.mark_step()
    assert work["ops_in_recipes"] > 0
    return results


def one_stride_differs(x, weights):
    return [layers(layer(layers(x, weights[:4]), weights[4].t()), weights[5:])]


def one_number_differs(x, weights):
    return [layers(layer(layers(x, weights[:4]), weights[4], 1.25), weights[5:])]


def one_alias_differs(x, weights):
    """The fifth layer has its own input as its weight."""
    y = layers(x, weights[:4])
    return [layers(layer(y, y), weights[5:])]


def a_result_is_kept(x, weights):
    y = layers(x, weights[:3])
    return [y.view(-1)[1:3], layers(y, weights[3:])]


def a_result_in_place(x, weights):
    x.copy_(layers(x, weights))
    return [x, x.t()]


def an_input_dies(x, weights):
    """Nobody holds it when the graph runs."""
    y = layers(x, weights)
    x.set_()
    return [y]


VARIANTS = (
    one_stride_differs,
    one_number_differs,
    one_alias_differs,
    a_result_is_kept,
    a_result_in_place,
    an_input_dies,
)


@pytest.mark.parametrize("deterministic", [False, True])
def test_layers_have_the_bits_of_the_nodes(deterministic):
    """Whatever differs between them."""
    torch.use_deterministic_algorithms(deterministic)
    try:
        for script in VARIANTS:
            _C.clear_graphs()
            torch.hpu.synchronize()
            by_node, in_recipe = both_ways(lambda: given(9), lambda made, script=script: script(*made))
            assert all(map(torch.equal, by_node, in_recipe)), script.__name__
            divided = {found.operators: found.calls for found in openhpu.recipes()}
            assert 9 <= divided[max(divided)] <= 12, (script.__name__, divided)
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_library_stays_while_a_graph_calls_it():
    x, weights = given(8)
    expected = {count: layers(x, weights[:count]).cpu() for count in (5, 6, 8)}
    _C.clear_graphs()
    torch.hpu.synchronize()
    before = libraries()
    graph, y = capture(lambda: layers(x, weights[:5]))
    graph.replay()
    assert torch.equal(y.cpu(), expected[5])
    (shared,) = libraries() - before
    for count in (6, 8):
        assert torch.equal(ran(lambda count=count: layers(x, weights[:count])).cpu(), expected[count])
    assert libraries() - before == {shared}
    _C.clear_graphs()  # the captured graph calls it
    graph.replay()
    assert torch.equal(y.cpu(), expected[5])
    assert shared in libraries()
    assert torch.equal(ran(lambda: layers(x, weights[:6])).cpu(), expected[6])
    del graph, y
    gc.collect()
    torch.hpu.synchronize()
    assert shared in libraries()  # the other graph calls it
    assert torch.equal(ran(lambda: layers(x, weights[:6]), 1).cpu(), expected[6])
    _C.clear_graphs()
    torch.hpu.synchronize()
    assert shared not in libraries()


def noisy(x, weights):
    """The results, and what the layers dropped."""
    dropped = []
    for weight in weights:
        noise = torch.dropout(torch.ones_like(x), 0.5, True)
        dropped.append(noise)
        x = torch.relu(x @ weight).mul(noise).add(1).sub(0.5).mul(1.25).abs()
    return [x, *dropped]


def test_each_layer_has_random_numbers_of_its_own():
    def seeded(made):
        torch.manual_seed(5)
        return noisy(*made)

    runs = [results for _ in range(2) for results in both_ways(lambda: given(6), seeded)]
    for results in runs:
        assert all(map(torch.equal, results, runs[0]))
    assert len({tuple(dropped.flatten().tolist()) for dropped in runs[0][1:]}) == 6


def test_a_library_counts_once():
    """Where the system lets a process map few of them (vm.max_map_count), graphs that call one library go together."""
    programs = [(noisy, 7), (layers, 10), (layers, 11), (layers, 12)]
    made = {count: given(count) for _, count in programs}
    x = torch.ones(3).to("hpu")
    policy, limits = settings.get("OPENHPU_COMPILE"), (settings.get("HABANA_PGM_LRU_MAX"), 10000)

    def run(number, times=3):
        script, count = programs[number]
        ran(lambda: script(*made[count]), times)

    _C.clear_graphs()
    gc.collect()  # graphs that a test before captured have libraries, too
    torch.hpu.synchronize()
    _C.configure_graphs(policy, *limits, max_libraries=_C.recipe_libraries() + 2)
    try:
        for number in (0, 1, 2, 3):
            run(number)
        with heard("recipe_loaded") as loaded:
            for number in (1, 2, 3, 0):
                run(number, 1)
        assert not loaded  # the last ones needed no library
        ran(lambda: (x + 1) * 2)  # which needs one
        with heard("recipe_loaded") as loaded:
            run(0, 1)
        assert not loaded  # the others were enough
        with heard("recipe_loaded") as loaded:
            run(1, 2)
        assert len(loaded) == 1
    finally:
        _C.configure_graphs(policy, *limits)


def test_sizes_that_change():
    """Batch and length: the recipe of the second sizes holds for the next ones, with the same region. The first time
    operators are new."""
    weights = weights_of(7)
    for number, shape in enumerate(((4, 5), (5, 7), (6, 9), (9, 3))):
        x = torch.rand(*shape, SIDE)
        given = x.to("hpu")
        torch.hpu.synchronize()
        before = libraries()
        with counted() as work:
            y = layers(given * 1.5, weights)
            htcore.mark_step()
        torch.testing.assert_close(y.cpu(), layers(x * 1.5, [weight.cpu() for weight in weights]))
        if number == 3:
            assert work["recipe_hits"] == 1
            assert work["recipes_compiled"] == work["ops_node_by_node"] == 0
            assert libraries() == before


class Layers(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.weights = nn.ParameterList(weights_of(count))

    def forward(self, x):
        return layers(x, self.weights)


def test_a_graph_with_constant_weights_is_whole():
    """They differ from layer to layer. The products are too large for generated code, which takes long to compile."""
    model = Layers(4)
    wrapped = torch.hpu.wrap_in_hpu_graph(model)
    rows = torch.rand(8000, SIDE)
    x = rows.to("hpu")
    expected = layers(rows, [weight.detach().cpu() for weight in model.weights])
    known = {found.name for found in openhpu.recipes()}
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(wrapped(x).cpu(), expected)
    assert [found.calls for found in openhpu.recipes() if found.name not in known and found.operators >= 40] == [0]


def test_torch_compile():
    x, weights = given(5)
    expected = layers(x, weights).cpu()
    function = compiled(lambda x: layers(x, weights))
    for _ in range(2):
        function(x)
    with counted(ops_node_by_node=0) as work:
        y = function(x)
        torch.hpu.synchronize()
    assert work["ops_in_recipes"] > 0
    assert torch.equal(y.cpu(), expected)
    assert 5 in {found.calls for found in openhpu.recipes()}
