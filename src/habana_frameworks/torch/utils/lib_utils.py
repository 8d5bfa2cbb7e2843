"""Where C++ headers and libraries for users' operators are (docs/custom-ops.md)."""

from pathlib import Path

import torch

import habana_frameworks.torch as package
from openhpu.integration import compat


def get_include_dir() -> str:
    """The folder of the headers `hpu_custom_op_pt2.h`, `hpu_custom_op.h` and those that they and users include, as a
    path."""
    return str(Path(package.__file__).parent / "include")


def get_lib_dir() -> str:
    """The folder of the libraries `habana_pytorch_plugin` and `habana_pytorch2_plugin` for the installed PyTorch, as a
    path."""
    return str(compat.libraries(torch.__version__))
