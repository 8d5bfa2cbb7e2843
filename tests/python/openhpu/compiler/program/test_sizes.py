"""Sizes that a recipe leaves open."""

import math

import pytest
import torch

from openhpu.compiler import CannotCompile
from openhpu.compiler.program.geometry import Geometry
from openhpu.compiler.program.program import Program
from openhpu.compiler.program.sizes import Guard, Size, Symbols
from openhpu.compiler.program.views import text, view_steps


@pytest.fixture
def symbols():
    return Symbols({"n0": 8, "n1": 5})


def test_a_formula_is_read_and_written(symbols):
    for formula in ("n0", "64*n0", "3*n0*n1+7", "n0-1", "n0*n0"):
        assert symbols.size(formula).text == formula
    assert int(symbols.size("3*n0*n1+7")) == 127
    assert not isinstance(symbols.size(5), Size)


def test_arithmetic_keeps_the_formula(symbols):
    n0, n1 = symbols.size("n0"), symbols.size("n1")
    assert (2 * n0 * n1 + 1 - n0).text == "2*n0*n1-n0+1"
    assert math.prod((n0, 4, n1)).text == "4*n0*n1"
    assert sum([n0, n0, 1]).text == "2*n0+1"
    assert (64 * n0 * n1 // n1).text == "64*n0"
    assert (64 * n0) // 16 == 4 * n0
    assert (64 * n0) % 16 == 0
    assert not isinstance(n0 - n0, Size)


def test_what_holds_for_all_sizes_needs_no_guard(symbols):
    n0 = symbols.size("n0")
    assert n0 > 1
    assert n0
    assert n0 != 1
    assert 64 * n0 >= n0
    assert n0 - 1 > 0
    assert n0 >= 0
    assert 0 // (64 * n0) == 0
    assert 3 % (64 * n0) == 3
    assert not symbols.guards


def test_what_may_change_is_guarded(symbols):
    n0, n1 = symbols.size("n0"), symbols.size("n1")
    assert n0 < 100
    assert n1 < n0
    assert not n0 > 64
    assert list(symbols.guards) == [Guard("n0", "100"), Guard("n1", "n0"), Guard("n0", "65")]


def test_equal_by_chance_is_not_equal(symbols):
    assert symbols.size("n0") != 8
    assert symbols.size("n0") != symbols.size("n1+3")
    assert len({symbols.size("n0"), symbols.size("n0"), 8}) == 2


def test_what_no_guard_can_say_is_refused(symbols):
    n0, n1 = symbols.size("n0"), symbols.size("n1")
    with pytest.raises(CannotCompile, match="which no guard can check"):
        _ = n0 + n1 < 1000
    with pytest.raises(CannotCompile, match="divides n0 by 3"):
        _ = n0 // 3


def test_views_are_written_with_formulas(symbols):
    n0 = symbols.size("n0")
    base = Geometry(torch.float32, (n0, 4), (4, 1), 0)
    assert text("x", view_steps(base, Geometry(torch.float32, (4, n0), (1, 4), 0))) == "x.t()"
    assert text("x", view_steps(base, Geometry(torch.float32, (4 * n0,), (1,), 0))) == "x.view((4*n0,))"
    assert text("x", view_steps(base, Geometry(torch.float32, (n0 - 1, 4), (4, 1), 4))) == "x[1:]"
    assert list(symbols.guards) == [Guard("2", "n0")]  # a slice of one row would be another view


def test_a_symbol_that_no_input_has_is_refused():
    parts = {name: [] for name in ("slots", "nodes", "live", "scalars", "variable")}
    with pytest.raises(CannotCompile, match="no input has the size n1"):
        Program({**parts, "threads": 1, "symbols": {"n1": {"hint": 7}}})


def rows(sizes, strides, view_sizes=None, view_strides=None):
    """A graph of relu(mm(x, weight)), where x has `sizes`, and relu reads the product with another view."""
    view = [view_sizes or sizes, view_strides or strides]
    numel = "*".join(map(str, sizes))
    operand = lambda slot, sizes, strides: ("tensor", slot, torch.float32, sizes, strides, 0, 0)  # noqa: E731
    result = lambda slot, sizes, strides: ("fresh", slot, torch.float32, sizes, strides, 0)  # noqa: E731
    bytes_of_rows = f"4*{numel}"
    weight = ((8, 8), (8, 1))
    return {
        "slots": [
            {"kind": "input", "nbytes": bytes_of_rows},
            {"kind": "input", "nbytes": 256},
            {"kind": "fresh", "nbytes": bytes_of_rows},
            {"kind": "fresh", "nbytes": bytes_of_rows},
        ],
        "nodes": [
            {
                "op": "aten::mm",
                "args": [operand(0, sizes, strides), operand(1, *weight)],
                "outputs": [result(2, sizes, strides)],
                "site": 0,
            },
            {"op": "aten::relu", "args": [operand(2, *view)], "outputs": [result(3, *view)], "site": 0},
        ],
        "live": [3],
        "scalars": [],
        "variable": [],
        "threads": 1,
    }


ROW = (8, 1)
# By case: a graph, its symbols with values of another run, and the rows of its input there.
GRAPHS = {
    "an input has the size": (rows(("n0", 8), ROW), {"n0": 5}, 5),
    "a multiple of it": (rows(("4*n0", 8), ROW), {"n0": 5}, 20),
    "which a view splits": (rows(("4*n0", 8), ROW, ("n0", 4, 8), (32, 8, 1)), {"n0": 5}, 20),
    "a product of two": (rows(("n0*n1", 8), ROW), {"n0": 5, "n1": 3}, 15),
    "a multiple of a product": (rows(("2*n0*n1", 8), ROW), {"n0": 5, "n1": 3}, 30),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_the_program_learns_its_symbols_from_flattened_inputs(case):
    description, values, count = GRAPHS[case]
    program = Program({**description, "symbols": {name: {"hint": value + 2} for name, value in values.items()}})
    x, weight = torch.randn(count, 8), torch.randn(8, 8)
    (result,) = program.function()(x, weight)
    assert torch.equal(result.view(count, 8), torch.relu(x @ weight))
    assert not program.symbols.guards


def test_symbols_that_no_input_tells_are_refused():
    """A product of both where one of them is also read alone."""
    description = rows(("n0*n1", 8), ROW, ("n0", "n1", 8), ("8*n1", 8, 1))
    with pytest.raises(CannotCompile, match="no input has the size n0"):
        Program({**description, "symbols": {"n0": {"hint": 3}, "n1": {"hint": 4}}})


def test_a_flattened_view_of_an_input_does_not_hide_its_size():
    description = rows(("4*n0", 8), ROW)
    split = ("tensor", 0, torch.float32, ("n0", 4, 8), (32, 8, 1), 0, 0)
    description["nodes"].append({**description["nodes"][1], "args": [split], "outputs": [("undefined",)]})
    program = Program({**description, "symbols": {"n0": {"hint": 3}}})
    assert program.plan.inputs[0].base.sizes == (program.symbols.size("n0"), 4, 8)
