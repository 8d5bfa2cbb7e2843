"""Scripts for Gaudi compute on the CPU, and by CUDA's names under GPU migration, what they computed on hpu."""

import functools

import pytest

from commands import ROOT
from tests.port import computing

SCRIPTS = {path.stem: path for path in sorted((ROOT / "tests" / "port" / "scripts").glob("*.py"))}
LISTED = {("graph_replay", "cpu"): {"torch.hpu.HPUGraph", "torch.hpu.graph"}}


@pytest.fixture(scope="module")
def on_hpu(tmp_path_factory):
    return functools.cache(lambda name: computing.run(SCRIPTS[name], tmp_path_factory.mktemp(name)))


# Lightning's accelerator for CUDA refuses the device hpu, which is cuda under migration.
CASES = [
    (name, target) for name in SCRIPTS for target in ("cpu", "cuda") if (name, target) != ("lightning_fit", "cuda")
]


@pytest.mark.parametrize(("name", "target"), CASES)
def test_a_ported_script_computes_the_same(name, target, on_hpu, tmp_path):
    tolerance = 2e-2 if name == "mixed_precision" else 1e-4
    computing.agree(SCRIPTS[name], target, on_hpu(name), tmp_path, LISTED.get((name, target), ()), tolerance)
