"""Transformers as optimum-habana adapts it, and beside it what the CPU computed without."""

import subprocess
import sys

import pytest
import torch
from optimum.habana.transformers.modeling_utils import adapt_transformers_to_gaudi


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """A function: what transformers computed on the CPU for the model of this name."""
    folder = tmp_path_factory.mktemp("plain")
    command = [sys.executable, "-m", "ecosystem.optimum_habana.plain", str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    return lambda name: torch.load(folder / f"{name}.pt")


@pytest.fixture(scope="session", autouse=True)
def adapted():
    adapt_transformers_to_gaudi()
