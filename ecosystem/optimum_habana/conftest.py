"""Transformers as optimum-habana adapts it, and beside it what the CPU computed without."""

import sys

import pytest
import torch
from optimum.habana.transformers.modeling_utils import adapt_transformers_to_gaudi

from commands import child


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """A function: what transformers computed on the CPU for the model of this name."""
    folder = tmp_path_factory.mktemp("plain")
    command = [sys.executable, "-m", "ecosystem.optimum_habana.plain", str(folder)]
    child.run(command, seconds=900, split=True).checked("transformers without optimum-habana")
    return lambda name: torch.load(folder / f"{name}.pt")


@pytest.fixture(scope="session", autouse=True)
def adapted():
    adapt_transformers_to_gaudi()
