"""optimum-habana's examples, by the commands of their READMEs (examples.toml), with models and data made by hand."""

import functools
import hashlib
import json
import math
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from commands import ROOT, child
from commands.fork_server import ForkServer
from ecosystem import words
from ecosystem.optimum_habana import made as make
from tests.distributed.ranks import free_port

TABLE: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "examples.toml").read_text())
COMMON = TABLE.pop("common")
MODES = {
    "eager": {"PT_HPU_LAZY_MODE": "0"},
    "lazy": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"},
    "recipes": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync"},
}
CELLS = [(name, mode) for name, row in TABLE.items() for mode in row.get("modes", ["lazy"])]
DEADLINE_S = 400.0
EXAMPLES = Path.cwd() / "examples"  # of the checkout, in which the lane starts pytest


@pytest.fixture(scope="session")
def made():
    """The folder of models and data, which stays until the code that makes them changes."""
    code = b"".join(Path(module.__file__).read_bytes() for module in (make, words))
    folder = ROOT / "build" / "ecosystem" / "optimum-habana" / "made" / hashlib.sha256(code).hexdigest()[:12]
    if not (folder / make.LAST).exists():
        command = [sys.executable, "-m", "ecosystem.optimum_habana.made", str(folder)]
        child.run(command, seconds=300, cwd=ROOT).checked("models and data")
    return folder


@pytest.fixture(scope="session")
def runs(made, tmp_path_factory):
    """A function: the folder and the output of a row in a mode, which runs once."""
    done = {}

    def run(name: str, mode: str) -> tuple[Path, str]:
        if (name, mode) not in done:
            done[name, mode] = _run(name, mode, made, tmp_path_factory.mktemp("run"), run)
        return done[name, mode]

    return run


@functools.cache
def _server():
    """One for all scripts: half of a command's time are imports of PyTorch's."""
    modules = ("torch", "torch._dynamo", "torch._inductor.lowering")
    return ForkServer(*modules, PYTHONSAFEPATH="")  # which is found by its folder


def _run(name, mode, made, folder, run):
    row = TABLE[name]
    places = {"made": made, "out": folder / "out", "examples": EXAMPLES, "common": COMMON, "after": ""}
    for metric in (made / "metrics").iterdir():
        (folder / metric.name).symlink_to(metric)
    if "after" in row:
        before, _ = run(row["after"], mode)
        places["after"] = before / "out"
        if (before / "hqt_output").exists():
            (folder / "hqt_output").symlink_to(before / "hqt_output")
    environment = os.environ | MODES[mode]
    environment.pop("PYTHONSAFEPATH", None)  # scripts import modules that lie beside them
    environment |= {key: value.format(**places) for key, value in row.get("environment", {}).items()}
    # `common` has places of its own.
    arguments = shlex.split(row["arguments"].format(**places).format(**places))
    script = [str(EXAMPLES / row["script"]), *arguments]
    if "beside" in row:
        tool, *rest = row["beside"].split()
        ended = child.run(
            [sys.executable, str(EXAMPLES / tool), *rest], seconds=DEADLINE_S, cwd=folder, env=environment
        )
        ended.checked(f"{name}, {mode}: {tool}")
    if "ranks" in row:
        port = str(free_port())
        launcher = ["--world_size", str(row["ranks"]), "--master_port", port, *row.get("launcher", "").split()]
        script = [str(EXAMPLES / "gaudi_spawn.py"), *launcher, *script]
        environment |= {"OMP_NUM_THREADS": "1", "PET_MASTER_PORT": port}  # torchrun does not get the launcher's
        server = None
    else:
        # A script finds modules that lie beside it.
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(script[0]).parent), environment["PYTHONPATH"]])
        server = _server()
    ended = child.run([sys.executable, *script], seconds=DEADLINE_S, cwd=folder, env=environment, server=server)
    ended.checked(f"{name}, {mode}")
    return folder, ended.output


@pytest.mark.parametrize(("name", "mode"), CELLS, ids=[f"{name}/{mode}" for name, mode in CELLS])
def test_feature(name, mode, runs):
    """The command ends well, with numbers where it reports some, near those of the row's first mode."""
    row = TABLE[name]
    folder, output = runs(name, mode)
    assert re.search(row.get("says", ""), output), output[-2000:]
    if "results" not in row:
        return
    found = json.loads((folder / "out" / "all_results.json").read_text())
    first, _ = runs(name, row.get("modes", ["lazy"])[0])
    expected = json.loads((first / "out" / "all_results.json").read_text())
    for key in row["results"]:
        assert math.isfinite(found[key]), key
        assert found[key] == pytest.approx(expected[key], rel=0.02, abs=0.02), key
