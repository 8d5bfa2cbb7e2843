"""Scripts for Gaudi compute on the CPU, and by CUDA's names under GPU migration, what they computed on hpu."""

import functools
import json
import re

import pytest

from commands import ROOT
from openhpu_port import port, to_device
from tests.processes import clean_environment, run_file

SCRIPTS = {path.stem: path for path in sorted((ROOT / "tests" / "port" / "scripts").glob("*.py"))}
# As torchrun with one process sets them, but for the port, which no other test must have: 0 is any.
ONE_RANK = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
LISTED = {("graph_replay", "cpu"): {"torch.hpu.HPUGraph", "torch.hpu.graph"}}


@pytest.fixture(scope="module")
def on_hpu(tmp_path_factory):
    return functools.cache(lambda name: run(SCRIPTS[name].read_text(), tmp_path_factory.mktemp(name)))


def run(text, folder, **variables):
    result = run_file(text, folder, clean_environment(folder, **ONE_RANK, **variables), fails=False)
    return json.loads(result.out.splitlines()[-1])


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_ported_script_computes_the_same(name, target, on_hpu, tmp_path):
    found = port(SCRIPTS[name].read_bytes(), to_device(target))
    assert {problem.what for problem in found.problems} == LISTED.get((name, target), set())
    if found.problems:
        return
    text, tolerance = found.text.decode(), 2e-2 if name == "mixed_precision" else 1e-4
    assert not re.search(r"^[^#\n]*(hpu|habana)", text, re.M)
    computed = run(text, tmp_path, PT_HPU_GPU_MIGRATION=str(int(target == "cuda")))
    assert computed == pytest.approx(on_hpu(name), rel=tolerance, abs=tolerance)
