"""Programs by families (`programs`), in the mode of the suite and, in eager mode, as a graph of torch.compile.

The programs of a family run together: in lazy mode and by torch.compile they are one graph.
"""

import pytest
import torch
from torch.utils._pytree import tree_leaves

from tests.hpu.conftest import LAZY
from tests.hpu.gaudi_ops.programs import casts, layers, lowered, tables
from tests.hpu.support import to_cpu, to_hpu

FAMILIES = {**casts.FAMILIES, **tables.FAMILIES, **layers.FAMILIES, **lowered.FAMILIES}
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def held(value):
    """A tensor as one of which numbers can be compared."""
    return value.float() if value.dtype in FLOAT8 else value


def fault(program, found):
    """What differs from the formula, or None."""
    expected = program.expected(*program.arguments)
    for ours, right in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        if program.near is None:
            if ours.dtype is not right.dtype or ours.shape != right.shape:
                return f"{ours.dtype} {list(ours.shape)}, not {right.dtype} {list(right.shape)}"
            a, b = held(ours), held(right)
            if not torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)):
                return f"{(a != b).float().mean():.1%} of the numbers"
        elif right.dtype is not torch.float64 and right.dtype is not torch.complex128 and ours.dtype is not right.dtype:
            return f"{ours.dtype}, not {right.dtype}"
        else:
            wide = torch.complex128 if right.is_complex() else torch.float64
            try:
                torch.testing.assert_close(ours.to(wide), right.to(wide), rtol=program.near, atol=program.near)
            except AssertionError as error:
                return str(error).splitlines()[0]
    return None


def faults(programs, run):
    """Of each program what is wrong with it, by name. `run(programs, arguments)`: their results on hpu."""
    results = to_cpu(run(programs, to_hpu([program.arguments for program in programs])))
    found = {program.name: fault(program, result) for program, result in zip(programs, results, strict=True)}
    return {name: text for name, text in found.items() if text}


def one_by_one(programs, arguments):
    return [program.run(*each) for program, each in zip(programs, arguments, strict=True)]


def in_one_graph(programs, arguments):
    functions = [program.run for program in programs]

    def work(arguments):
        return [function(*each) for function, each in zip(functions, arguments, strict=True)]

    return torch.compile(work, backend="hpu_backend", fullgraph=True)(arguments)


def says(programs, wrong):
    return f"{len(programs) - len(wrong)} of {len(programs)}: {wrong}"


@pytest.mark.parametrize("family", FAMILIES)
def test_programs(family, counted):
    programs = FAMILIES[family]()
    complex_ones = family == "complex numbers"  # which a Gaudi does not compute, so that they are fallbacks
    with counted(**({} if complex_ones else {"ops_fallback": 0})):
        wrong = faults(programs, one_by_one)
    assert not wrong, says(programs, wrong)


# One graph of each kind of operator: a compiler takes minutes for all of them.
COMPILED = [
    "casts to fp8",
    "hybrid casts to fp8",
    "casts from fp8",
    "affine quantisation by channel",
    "sums that are cut off",
]


@pytest.mark.skipif(LAZY, reason="torch.compile is for eager mode")
@pytest.mark.parametrize("family", COMPILED)
def test_compiled_programs(family, counted, compiled_graphs):
    programs = FAMILIES[family]()
    with counted(ops_fallback=0):
        wrong = faults(programs, in_one_graph)
    assert len(compiled_graphs) == 1
    assert not wrong, says(programs, wrong)


def count(families=FAMILIES):
    """How many programs there are."""
    return sum(len(family()) for family in families.values())


def test_there_are_hundreds_of_programs_with_different_names():
    assert count() >= 300
    for family in FAMILIES.values():
        names = [program.name for program in family()]
        assert len(set(names)) == len(names)
