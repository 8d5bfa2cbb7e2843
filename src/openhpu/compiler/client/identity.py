"""The key of a recipe: its graph and everything else that can change its code.

So a recipe of another compiler is never loaded. The key is cheap: it does not import Inductor, and it asks the C++
compiler for its version once.
"""

import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import torch

from openhpu import _machine, settings
from openhpu.compiler.client.forks import no_fork
from openhpu.compiler.program import description as graph
from openhpu.compiler.program.description import Description

_VERSION_S = 30.0  # a compiler that takes longer to tell its version hangs
# GCC's, and where Inductor looks for OpenMP.
_OPTIONS = {"CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "OMP_PREFIX"}


def recipe_key(description: Description) -> str:
    """The content address of the recipe of a graph, on this machine, with this PyTorch and this compiler."""
    sources = f"{_compiler()} {_machine.recipe_calls}"  # ours, and those of the core's that recipes call
    build = (torch_build(), torch.__config__.show(), vector_isa(), sources, cxx(), *cxx_options())
    return graph.key(description, *build, f"divided: {settings.get('OPENHPU_REGIONS')}")


def torch_build() -> str:
    """Version and commit of PyTorch, and for which CUDA it was built, if for any."""
    return f"{torch.__version__} {torch.version.git_version} {torch.version.cuda}"


def cxx() -> str:
    """The C++ compiler that Inductor takes: its path, the size and time of its file, and its version."""
    return _cxx(os.environ.get("CXX", "g++"), os.environ.get("PATH", ""))


@functools.cache
def _cxx(name: str, path: str) -> str:
    found = shutil.which(name, path=path)
    if found is None:
        return f"no {name}"
    file = os.path.realpath(found)
    status = os.stat(file)
    try:
        with no_fork:
            process = subprocess.Popen(
                [found, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        with process:
            try:
                said = process.communicate(timeout=_VERSION_S)[0]
            finally:
                process.kill()
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    return f"{file} {status.st_size} {status.st_mtime_ns} {said}"


def cxx_options() -> list[str]:
    """The environment variables from which Inductor and the C++ compiler take options, with their values. All other
    options are this package's or PyTorch's."""
    return sorted(
        f"{name}={value}" for name, value in os.environ.items() if name in _OPTIONS or name.startswith("AOT_INDUCTOR_")
    )


@functools.cache
def vector_isa() -> str:
    """PyTorch's name of the instruction set and a digest of all that the processor has: code is made for exactly it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    digest = hashlib.sha256("\n".join(features).encode()).hexdigest()[:12]
    return f"{torch.backends.cpu.get_cpu_capability()} {digest}"


@functools.cache
def _compiler() -> str:
    digest = hashlib.sha256()
    compiler = Path(__file__).parents[1]
    for path in sorted([*compiler.rglob("*.py"), *compiler.rglob("*.h")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
