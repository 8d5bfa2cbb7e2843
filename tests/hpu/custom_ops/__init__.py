"""User operators in C++, for tests: `load` builds them once for all suites."""

import functools
from pathlib import Path

import torch
from torch.utils import cpp_extension

import openhpu
from commands import ROOT
from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir

HERE = Path(__file__).parent


def build(*sources, name, folder, library="habana_pytorch2_plugin"):
    """A library of these sources, as a user builds it with torch.utils.cpp_extension.load: its path."""
    folder.mkdir(parents=True, exist_ok=True)
    return cpp_extension.load(
        name=name,
        sources=[str(source) for source in sources],
        build_directory=str(folder),
        extra_include_paths=[get_include_dir(), "/usr/include/habanalabs"],
        extra_ldflags=[f"-L{get_lib_dir()}", f"-l{library}"],
        is_python_module=False,
    )


@functools.cache
def load(which="operators", library="habana_pytorch2_plugin"):
    """The operators `torch.ops.openhpu_test`, or those of another file."""
    release = torch.__version__.partition("+")[0]
    build(
        HERE / f"{which}.cpp",
        name=f"test_{which}",
        folder=ROOT / "build" / "custom-ops" / release / which,
        library=library,
    )


@functools.cache
def loaded():
    """The operators of operators.cpp. Some of them are registered wrongly on purpose, which loading says. The text."""
    openhpu.custom_kernel("test_python_f32")(lambda x: x * x)
    try:
        load()
    except RuntimeError as error:
        return str(error)
    return ""
