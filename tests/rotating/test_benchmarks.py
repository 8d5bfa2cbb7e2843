"""Every benchmark runs: `--quick` to its end, with a table of numbers for each peer."""

import json
import math
import sys

import pytest

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
    assert tables and all(table["rows"] for table in tables), said
    assert all(math.isfinite(number) for number in numbers_in(tables)), said


def numbers_in(value):
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from numbers_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from numbers_in(part)
