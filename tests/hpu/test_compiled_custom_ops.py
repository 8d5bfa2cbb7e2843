"""User operators in recipes: one node, whose kernel the recipe calls through a function pointer."""

import pytest
import torch

from openhpu.interface.custom_ops import user_operators

from .custom_ops import loaded
from .support import capture, counted

OPS = torch.ops.openhpu_test


@pytest.fixture(scope="module", autouse=True)
def library():
    loaded()


@pytest.fixture
def in_recipe():
    """`in_recipe(function)`: its result from a recipe that holds all of its operators."""

    def run(function):
        for _ in range(3):
            result = function()
            torch.hpu.synchronize()
        with counted(ops_node_by_node=0, ops_waited=0) as work:
            result = function()
            torch.hpu.synchronize()
        assert work["recipe_hits"] == 1 and work["ops_in_recipes"] == work["ops_recorded"] > 0, work
        return result

    return run


def test_the_neighbours_are_in_the_same_recipe(in_recipe):
    x = torch.randn(6, 8).to("hpu")
    y = in_recipe(lambda: OPS.scale((x + 1).t(), 3.0).relu() * 2)
    torch.testing.assert_close(y.cpu(), ((x.cpu() + 1).t() * 3).relu() * 2)


def test_several_results_and_writes(in_recipe):
    x, bias = torch.randn(6, 8).to("hpu"), torch.randn(6, 3).to("hpu")

    def work():
        values, indices = OPS.top(x * 2, 3, True)
        total = torch.zeros(6, 3, device="hpu")
        OPS.add_(total[:, :2], values[:, 1:])
        OPS.add.out(total, bias, out=(out := torch.empty(0, device="hpu")))
        return OPS.sum([values, out], None), indices + 1, total

    summed, indices, total = in_recipe(work)
    expected = torch.topk(x.cpu() * 2, 3)
    start = torch.zeros(6, 3)
    start[:, :2] += expected.values[:, 1:]
    torch.testing.assert_close(total.cpu(), start)
    torch.testing.assert_close(summed.cpu(), expected.values + start + bias.cpu())
    assert torch.equal(indices.cpu(), expected.indices + 1)


def test_params_that_change_become_arguments_of_the_recipe():
    x = torch.randn(5).to("hpu")
    for k in range(12):
        y = OPS.scale(x + 1, float(k)) + 1
        torch.hpu.synchronize()
    with counted(ops_node_by_node=0, recipe_hits=1):
        y = OPS.scale(x + 1, 0.25) + 1
        torch.hpu.synchronize()
    torch.testing.assert_close(y.cpu(), (x.cpu() + 1) * 0.25 + 1)


def test_sizes_that_change_share_a_recipe():
    torch.testing.assert_close(*_of_sizes(range(3, 12)))
    with counted(ops_node_by_node=0):
        torch.testing.assert_close(*_of_sizes([57]))


def _of_sizes(sizes):
    found, expected = [], []
    for n in sizes:
        x = torch.randn(n, 4).to("hpu")
        found.append((OPS.scale(x.t(), 2.0) + 1).cpu())
        expected.append(x.cpu().t() * 2 + 1)
    return found, expected


def test_a_replay_calls_the_kernel_and_not_the_operator():
    x = torch.randn(4, 4).to("hpu")
    OPS.scale(x, 2.0)
    graph, y = capture(lambda: OPS.scale(x + 1, 2.0) - 1)
    assert graph.describe()["recipe"]
    calls = _calls()
    for k in range(3):
        x.fill_(k)
        with counted(ops_node_by_node=0, graph_replays=1):
            graph.replay()
            torch.hpu.synchronize()
        assert torch.equal(y.cpu(), torch.full((4, 4), (k + 1) * 2.0 - 1))
    assert _calls() == calls


def _calls():
    return {row["schema"]: row["calls"] for row in user_operators()}


def test_a_kernel_in_python_inside_a_recipe(in_recipe):
    x = torch.randn(3, 5).to("hpu")
    y = in_recipe(lambda: OPS.by_name(x + 1, "openhpu_test::in_python") * 2)
    torch.testing.assert_close(y.cpu(), (x.cpu() + 1) ** 2 * 2)


def test_the_operators_of_one_in_python_are_in_the_recipe(in_recipe):
    from tests.hpu.test_library_operators import everywhere

    x = torch.randn(3, 5).to("hpu")
    y = in_recipe(lambda: everywhere(x + 1, 3.0) * 2)
    torch.testing.assert_close(y.cpu(), (x.cpu() + 1) * 3 * 2)


def test_a_kernel_that_throws_in_a_recipe_names_itself_and_its_line(usable):
    x = torch.randn(3).to("hpu")
    message = r"openhpu_test::kernel_throws: its kernel for the guid 'test_throws' failed: the third element"
    for _ in range(4):
        with pytest.raises(RuntimeError, match=message) as raised:
            y = OPS.by_name(x + 1, "openhpu_test::kernel_throws") + 1
            torch.hpu.synchronize()
        assert "test_compiled_custom_ops.py" in str(raised.value)
    assert y.shape == (3,)


def test_of_several_calls_the_failed_one_is_named(usable):
    x, half, nine = torch.ones(3).to("hpu"), torch.full((3,), 0.5).to("hpu"), torch.full((3,), 9.0).to("hpu")

    def roots(x, less):
        y = OPS.by_name(x + 1, "openhpu_test::root")
        y = OPS.by_name(OPS.scale(y, 1.0) - less, "openhpu_test::root")
        return OPS.by_name(y + 1, "openhpu_test::root")

    for _ in range(3):
        roots(x, half)
        torch.hpu.synchronize()
    with counted(recipe_hits=1, ops_node_by_node=0), pytest.raises(RuntimeError, match="no root") as raised:
        roots(x, nine)
        torch.hpu.synchronize()
    assert f'{__file__}", line {roots.__code__.co_firstlineno + 2}' in str(raised.value)
    graph, _ = capture(lambda: roots(x, half))
    x.fill_(-5)
    with pytest.raises(RuntimeError, match="no root") as raised:
        graph.replay()
        torch.hpu.synchronize()
    assert f'{__file__}", line {roots.__code__.co_firstlineno + 1}' in str(raised.value)


def test_the_recipe_of_another_process_is_found(script, tmp_path):
    code = """
    from tests.hpu import custom_ops
    custom_ops.loaded()
    x = torch.ones(4, device="hpu")
    for _ in range(3):
        y = torch.ops.openhpu_test.scale(x + 1, 5.0) * 2
        torch.hpu.synchronize()
    assert y.tolist() == [20.0] * 4
    print(openhpu.counters()["recipe_hits"] > 0)
    """
    folder = tmp_path / "recipes"
    cache = {"PT_HPU_RECIPE_CACHE_CONFIG": f"{folder},False,64"}

    def libraries():
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*.so")}

    assert script(code, **cache).out == "True"
    made = libraries()
    assert made
    assert script(code, **cache).out == "True"
    assert libraries() == made
