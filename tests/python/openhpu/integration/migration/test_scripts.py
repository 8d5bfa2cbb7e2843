"""Training scripts written for CUDA, run on hpu under migration, print what they print on the CPU."""

import re
from pathlib import Path

import pytest

from tests.processes import clean_environment, run_file, run_python

FOLDER = Path(__file__).parent / "scripts"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "ranks")
MODES = {"eager": {}, "lazy": {"PT_HPU_LAZY_MODE": "1"}}
LOOSE = {"graphs": 0.02}  # bfloat16


def numbers(text):
    return [float(found) for found in re.findall(r"-?\d+(?:\.\d+)?", text)]


def run(name, folder, **variables):
    environment = clean_environment(folder, OPENHPU_COMPILE="off", **variables)
    return run_file((FOLDER / f"{name}.py").read_text(), folder, environment, fails=False)


@pytest.fixture(scope="module")
def on_the_cpu(tmp_path_factory):
    """What a script prints on the CPU, without migration; each runs once."""
    known = {}

    def find(name):
        if name not in known:
            known[name] = numbers(run(name, tmp_path_factory.mktemp(name), DEVICE="cpu").out)
        return known[name]

    return find


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_losses_are_those_of_the_cpu(name, mode, on_the_cpu, tmp_path):
    result = run(name, tmp_path, PT_HPU_GPU_MIGRATION="1", **MODES[mode])
    assert "fallback" not in result.err
    tolerance = LOOSE.get(name, 2e-4)
    assert numbers(result.out) == pytest.approx(on_the_cpu(name), rel=tolerance, abs=tolerance)
    assert len(on_the_cpu(name)) > 4


def test_torch_compile(on_the_cpu, tmp_path):
    result = run("gpt_loop", tmp_path, PT_HPU_GPU_MIGRATION="1", COMPILE="1")
    assert numbers(result.out) == pytest.approx(on_the_cpu("gpt_loop"), rel=2e-4)


@pytest.mark.parametrize("mode", MODES)
def test_torchrun(mode, tmp_path):
    found = {}
    on = {"PT_HPU_GPU_MIGRATION": "1", "OPENHPU_COMPILE": "off", **MODES[mode]}
    for device, variables in (("cpu", {}), ("cuda", on)):
        environment = clean_environment(tmp_path, DEVICE=device, OMP_NUM_THREADS="1", **variables)
        command = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(FOLDER / "ranks.py")]
        found[device] = numbers(run_python(command, tmp_path, environment).out)
    assert len(found["cpu"]) == 2
    assert found["cuda"] == pytest.approx(found["cpu"], rel=2e-4)
