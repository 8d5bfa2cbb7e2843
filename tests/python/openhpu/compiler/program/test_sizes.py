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
