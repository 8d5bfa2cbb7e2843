"""The forms between a script and Inductor are those of tests/golden; `python -m tests.golden` writes them anew."""

import sys

import pytest
import torch

from commands import ROOT, child

GOLDEN = ROOT / "tests" / "golden"


@pytest.mark.skipif(torch.__version__ < (2, 13) or torch.__version__ >= (2, 14), reason="the files are of PyTorch 2.13")
def test_graphs_are_the_golden_ones(tmp_path):
    ended = child.run([sys.executable, "-m", "tests.golden", str(tmp_path)], seconds=300, cwd=ROOT)
    assert ended.code == 0, ended.tail
    names = {path.name for path in GOLDEN.glob("*.txt")}
    assert names == {path.name for path in tmp_path.iterdir()}
    assert len(names) == 9
    for name in sorted(names):
        assert (tmp_path / name).read_text() == (GOLDEN / name).read_text(), (
            f"tests/golden/{name} is another graph: run `python -m tests.golden`, look at the difference, and "
            "commit it if it is what the change is for"
        )
