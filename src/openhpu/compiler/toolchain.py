"""What Inductor wants of the C++ compiler, for less.

Out of the box a first recipe costs more in preparation than in compilation: a dozen programs are compiled to try out
instruction sets, headers are preprocessed to see whether their precompiled form is up to date, and the generated
wrapper checks its inputs in code that takes longer to compile than the rest and never runs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from openhpu import settings
from openhpu.compiler.disk_cache import own_folder, publish, user_cache
from openhpu.compiler.identity import torch_build, vector_isa

_BUILDING = ".building-"
_STALE_S = 3600
_UNUSED_S = 30 * 24 * 3600

_NO_CHECKS = """
static bool _check_aoti_runtime_check_inputs_env() { return false; }
AOTI_NOINLINE static void __check_inputs_outputs(AtenTensorHandle*, AtenTensorHandle*) {}
"""


@contextlib.contextmanager
def quick(work: Path) -> Iterator[None]:
    """While it lasts, Inductor takes the short cuts. `work` takes precompiled headers where they can't be kept."""
    from torch._inductor import codecache
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
    from torch._inductor.cpu_vec_isa import VecISA

    headers = header_folder() or work / ".headers"
    with (
        mock.patch.object(VecISA, "check_build", _is_known),
        mock.patch.object(codecache, "_precompile_header", functools.partial(_precompiled, headers)),
        mock.patch.object(CppWrapperCpu, "generate_input_output_runtime_checks", _without_checks),
    ):
        yield


def header_folder() -> Path | None:
    """Keeps precompiled headers from one recipe to the next, wherever recipes are kept: 300 MB for each set of compiler
    options. Only its owner may write there; None where that is not so."""
    chosen = settings.get("OPENHPU_HEADER_CACHE")
    folder = Path(os.path.abspath(os.path.expanduser(chosen))) if chosen else user_cache() / "headers"
    return folder if own_folder(folder) else None


def _is_known(isa: Any, code: str) -> bool:
    """Whether the compiler knows the instruction set. That the processor has it was asked before."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    return _accepts(get_cpp_compiler(), isa._arch_flags)


@functools.cache
def _accepts(compiler: str, flags: str) -> bool:
    options = [flag if flag.startswith("-") else f"-{flag}" for flag in flags.split()]
    command = [compiler, *options, "-x", "c++", "-fsyntax-only", "/dev/null"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _precompiled(headers: Path, header: str, command_line: str, **command: Any) -> str:
    """The path of a header that includes `header`, with its precompiled form beside it."""
    from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions, get_compiler_version_info

    command.pop("extra_flags", None)  # for the linker
    option = CppTorchDeviceOptions(**command, precompiling=True)
    text = f"#include <{header}>\n"
    same = CppBuilder(name="header.h", sources="header.h", BuildOption=option).get_command_line()
    build = (same, text, get_compiler_version_info(option.get_compiler()), torch_build(), vector_isa())
    folder = headers / hashlib.sha256(repr(build).encode()).hexdigest()[:32]
    if not (folder / "header.h.gch").exists():
        headers.mkdir(mode=0o700, parents=True, exist_ok=True)
        _tidy(headers)
        work = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=headers))
        try:
            (work / "header.h").write_text(text)
            CppBuilder(name=str(work / "header.h"), sources=str(work / "header.h"), BuildOption=option).build()
            publish(work, folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.utime(folder)
    return str(folder / "header.h")


def _tidy(headers: Path) -> None:
    """Remove what processes left behind that died while they built, and what nobody used for a while."""
    for path in headers.iterdir():
        limit = _STALE_S if path.name.startswith(_BUILDING) else _UNUSED_S
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > limit:
                shutil.rmtree(path, ignore_errors=True)


def _without_checks(wrapper: Any) -> None:
    wrapper.prefix.splice_aot(_NO_CHECKS)
