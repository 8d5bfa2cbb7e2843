"""Strides of index expressions are those that Inductor finds."""

import itertools

import pytest
import sympy
from torch._inductor.sizevars import stride_at_vec_range
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from openhpu.compiler.inductor import strides

x, y, s = (sympy.Symbol(name, integer=True, positive=True) for name in ("x", "y", "s"))
SUMS = [x, y, sympy.Integer(7), 3 * x, 4 * x + y + 1, -x + 2 * y, 64 * x + 8 * y - 5]
OTHERS = [s * x + y, x**2, 4 * (x + y), x * y, FloorDiv(x, 16) + y, ModularIndexing(x, 1, 64) + 8 * y, FloorDiv(x, 3)]


@pytest.mark.parametrize(("index", "variable"), list(itertools.product(SUMS + OTHERS, (x, y))))
@pytest.mark.parametrize("length", [None, 8])
def test_a_stride_is_that_of_pytorch(index, variable, length):
    found = strides.quickly(stride_at_vec_range)(index, variable, length)
    assert sympy.simplify(found - stride_at_vec_range(index, variable, length)) == 0


def test_a_sum_needs_no_simplification():
    def thorough(index, variable, length):
        asked.append(index)
        return stride_at_vec_range(index, variable, length)

    asked: list[sympy.Expr] = []
    stride = strides.quickly(thorough)
    for index in SUMS:
        stride(index, x, 8)
    assert asked == []
    assert stride(s * x, x, 8) == s
    assert asked == [s * x]
