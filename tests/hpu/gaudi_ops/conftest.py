"""How tests of Gaudi's operators run them: in the suite's mode, without a fallback, and through torch.compile."""

import pytest
import torch
from torch.utils._pytree import tree_map

from tests.hpu.support import to_cpu, to_hpu


def _widened(results):
    """Results with fp8 in float32, in which numbers can be near each other."""
    return tree_map(lambda x: x.float() if x.dtype in (torch.float8_e4m3fn, torch.float8_e5m2) else x, results)


@pytest.fixture
def native(counted):
    """`native(function, *arguments, **more)`: its results on the CPU, of arguments on hpu; no operator fell back."""

    def run(function, *arguments, **more):
        arguments, more = to_hpu((arguments, more))
        with counted(ops_fallback=0) as difference:
            results = to_cpu(function(*arguments, **more))
        assert difference["ops_issued"] + difference["ops_waited"] + difference["graph_replays"] > 0
        return results

    return run


@pytest.fixture
def everywhere(native, compiled_graphs):
    """`native`, and the same numbers from one graph of torch.compile, of which nothing ran eagerly."""

    def run(function, *arguments, **more):
        results = native(function, *arguments, **more)
        before = len(compiled_graphs)
        compiled = torch.compile(function, backend="hpu_backend", fullgraph=True)
        for _ in range(2):  # captured, then run
            again = native(compiled, *arguments, **more)
            torch.testing.assert_close(_widened(again), _widened(results), rtol=1e-5, atol=1e-5, equal_nan=True)
        assert len(compiled_graphs) == before + 1
        assert not compiled_graphs[-1].layout.eager
        return results

    return run
