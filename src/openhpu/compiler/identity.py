"""What a compiled recipe depends on besides its graph. Cheap: asks nothing of Inductor."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import torch

from openhpu.compiler import description as graph
from openhpu.compiler.description import Description


def recipe_key(description: Description) -> str:
    """The content address of the recipe of a graph, on this machine, with this PyTorch and this compiler."""
    return graph.key(description, torch_build(), vector_isa(), _compiler())


def torch_build() -> str:
    """Version and commit of PyTorch."""
    return f"{torch.__version__} {torch.version.git_version}"


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
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
