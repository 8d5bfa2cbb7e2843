"""A kernel in TPC-C in a layer of vLLM: tokens as transformers' on the CPU, in each mode of the lane."""

import re
import sys

import pytest

from commands import ROOT, child


@pytest.mark.parametrize("option", ["", "--compile"])
def test_a_layer_with_a_kernel(option):
    command = [sys.executable, "-m", "examples.tpc.serve", *option.split()]
    ended = child.run(command, seconds=500, cwd=ROOT, farewell=10.0).checked("serve")
    assert not ended.killed
    found = re.search(r"silu_and_mul: (\d+) calls, kernel of liblayer.so", ended.output)
    assert found is not None
    assert int(found[1]) > 0
