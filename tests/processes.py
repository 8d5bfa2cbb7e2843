"""Tests' processes: with a clean environment, and what they did."""

import functools
import os
import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import openhpu
from commands import ROOT, child
from commands.fork_server import ForkServer

# Made once for all tests: each process would compile them anew, which takes longer than most recipes.
HEADERS = str(ROOT / "build" / "headers")
# Recipes of tests that are not about making them.
RECIPES = ROOT / "build" / "recipes"
TIMEOUT_S = 110.0  # of a script, before the test's own time ends
# Of torch.compile in that Python, which has a defect (pyproject.toml has it for tests in pytest's own process).
_ALLOWED = "ignore:Guards may run slower on Python 3.13.0:RuntimeWarning"
# What Triton's bindings print at the end of a forked script, from PyTorch 2.15 on.
_LEAKS = re.compile(r"^nanobind: leaked .*?/refleaks\.html$\n?", re.MULTILINE | re.DOTALL)
_FAREWELL_S = 20.0  # for what a script leaves behind, which tests may be about
# Variables that would change what a script does; each test names the ones that it is about.
OURS = (
    "PT_",
    "OPENHPU_",
    "HABANA_",
    "HLS_",
    "LOG_LEVEL_",
    "LOCAL_",
    "RANK",
    "ENABLE_CONSOLE",
    "GRAPH_VISUALIZATION",
    "GPU_MIGRATION",
    "TORCH_DEVICE",
)

# What PyTorch and the libraries under it read when they are loaded.
READ_AT_IMPORT = (
    "OMP_",
    "GOMP_",
    "MKL_",
    "KMP_",
    "LD_",
    "MALLOC_",
    "PYTHONHASH",
    "TORCH_LOGS",
    "TORCH_SHOW",
    "TORCH_DISTRIBUTED",
    "ATEN_",
    "DNNL_",
    "ONEDNN_",
)


def clean_environment(home: Path, **variables: str) -> dict[str, str]:
    """The environment without OURS, with the tested code, HEADERS, no module locks and a home folder of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    paths = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(Path(openhpu.__file__).parents[1]))))
    ours = {"PYTHONPATH": paths, "OPENHPU_MODULE_LOCKS": "0", "OPENHPU_HEADER_CACHE": HEADERS, "HOME": str(home)}
    return {**clean, **ours, **variables}


def can_be_forked(environment: Mapping[str, str], servers: Mapping[str, str]) -> bool:
    """Whether a script with this environment may be forked from a server with that one."""
    return all(value == servers.get(name) for name, value in environment.items() if name.startswith(READ_AT_IMPORT))


class Result:
    """What a script did."""

    def __init__(self, ended: child.Ended) -> None:
        self.code = ended.code
        self.out = ended.output.strip()
        self.err = _LEAKS.sub("", ended.errors).strip()

    @property
    def last(self) -> str:
        """The last line of stderr: the error of a script that failed."""
        return self.err.splitlines()[-1] if self.err else ""


def run_code(
    code: str,
    folder: Path,
    environment: dict[str, str],
    warnings: str,
    fails: bool,
    timeout: float = TIMEOUT_S,
    fresh: bool = False,
) -> Result:
    """Run Python code in `folder`; `fails`: whether it must. `fresh`: in an interpreter that imports PyTorch itself."""
    arguments = ["-W", warnings, "-W", _ALLOWED, "-c", textwrap.dedent(code)]
    return run_python(arguments, folder, environment, fails, timeout, fresh)


def run_file(code: str, folder: Path, environment: dict[str, str], fails: bool, fresh: bool = False) -> Result:
    """Run Python code as the file `script.py` in `folder`, for what needs one; `fails`: whether it must."""
    (folder / "script.py").write_text(textwrap.dedent(code))
    return run_python(["script.py"], folder, environment, fails, fresh=fresh)


@functools.cache
def _server() -> ForkServer:
    """One for all scripts of this process."""
    return ForkServer("torch", "torch._dynamo", "pytest")  # each optimizer imports Dynamo


def run_python(
    arguments: list[str],
    folder: Path,
    environment: dict[str, str],
    fails: bool | None = False,
    timeout: float = TIMEOUT_S,
    fresh: bool = True,
) -> Result:
    """Run Python with arguments in `folder`; `fails`: whether it must (None: it may). `fresh`: as of `run_code`."""
    fresh = fresh or not can_be_forked(environment, os.environ)
    ended = child.run(
        [sys.executable, "-X", "faulthandler", *arguments],
        env=environment,
        split=True,
        cwd=folder,
        seconds=timeout,
        farewell=_FAREWELL_S,
        server=None if fresh else _server(),
    )
    assert not ended.timed_out, f"{ended.how}: {ended.killed}\n{ended.output}{ended.errors}"
    assert fails in (None, ended.code != 0), ended.output + ended.errors
    return Result(ended)
