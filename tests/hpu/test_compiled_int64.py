"""int64 in recipes, whose generated code wraps and counts as operators do on a Gaudi, or is exact (docs/int64.md)."""

import pytest
import torch

import habana_frameworks.torch.core as htcore

from . import test_int64
from .support import heard, to_cpu
from .test_int64 import numbers, wrapped

PROGRAMS = [program for name, program in test_int64.PROGRAMS.items() if name != "prod"]  # which waits for values


@pytest.mark.parametrize("gaudi", [True, False])
def test_a_recipe_has_the_bits_of_its_operators(gaudi, request, counted):
    size = 6 if gaudi else 5  # a process has one of both, and its recipes too
    if gaudi:
        request.getfixturevalue("narrow")
    expected = [program(numbers()[:size]) for program in PROGRAMS]
    for _ in range(3):
        given = [numbers()[:size].to("hpu") for _ in PROGRAMS]
        torch.hpu.synchronize()
        with heard("int64_overflow") as seen, counted() as work:
            results = [program(x) for program, x in zip(PROGRAMS, given, strict=True)]
            htcore.mark_step()
            results = to_cpu(results)
        assert all(map(torch.equal, results, [wrapped(x) for x in expected] if gaudi else expected))
    assert work["ops_in_recipes"] > 5
    assert (work["int64_overflows"] > 0) == gaudi
    if gaudi:
        assert {event.site[0] for event in seen} == {test_int64.__file__, __file__}  # torch.square is called here
        assert {"aten::mul", "aten::add_"} <= {event.params["op"] for event in seen}
