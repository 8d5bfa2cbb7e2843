"""Every benchmark runs: `--quick` to its end, with a table of numbers for each peer."""

import json
import math
import sys

import pytest
from torch.utils._pytree import tree_leaves

from benchmarks.__main__ import BENCHMARKS
from tests.rotating.shards import LONG_BENCHMARKS, environment_of, run


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG_BENCHMARKS)) for name in BENCHMARKS]
)
def test_benchmark(name, tmp_path):
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", name, "--quick", "--json", str(results)]
    environment = environment_of(tmp_path)
    done = run(command, tmp_path, environment=environment)
    said = (done.output + done.errors)[-4000:]
    assert done.code == 0, said
    assert "FAILED" not in done.output, said  # of `machines`: a condition under which a peer could not be measured
    tables = json.loads(results.read_text())["benchmarks"][name]
    assert tables, said
    assert all(table["rows"] for table in tables), said
    assert all(math.isfinite(leaf) for leaf in tree_leaves(tables) if isinstance(leaf, float)), said
