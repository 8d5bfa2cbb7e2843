"""What Inductor wants of the C++ compiler, for less.

Out of the box a first recipe costs more in preparation than in compilation: a dozen programs are compiled to try out
instruction sets, headers are preprocessed to see whether their precompiled form is up to date, and the generated
wrapper checks its inputs in code that takes longer to compile than the rest and never runs. Each wrapper also holds the
library's interface, always the same, which takes four fifths of the rest: here it is compiled once, and linked, and so
is what compiles the wrapper's one regular expression.
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
from openhpu.compiler import kernel_marks
from openhpu.compiler.disk_cache import own_folder, publish, user_cache
from openhpu.compiler.identity import torch_build, vector_isa

_BUILDING = ".building-"
_STALE_S = 3600
_UNUSED_S = 30 * 24 * 3600

_NO_CHECKS = """
static bool _check_aoti_runtime_check_inputs_env() { return false; }
AOTI_NOINLINE static void __check_inputs_outputs(AtenTensorHandle*, AtenTensorHandle*) {}
"""

# A wrapper looks at its device's name with a regular expression; compiling what compiles that takes most of the
# wrapper's time.
_REGEX = """
#include <regex>
#ifdef __GLIBCXX__
{extern}template class std::__detail::_Compiler<std::regex_traits<char>>;
{extern}template class std::__detail::_Scanner<char>;
#endif
"""


@contextlib.contextmanager
def quick(work: Path) -> Iterator[None]:
    """While it lasts, Inductor takes the short cuts. Where precompiled headers can't be kept for the user, they
    lie beside `work`, for the next recipe there."""
    from torch._inductor import codecache
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
    from torch._inductor.cpu_vec_isa import VecISA

    prepared = _Prepared(header_folder() or work.parent / ".headers")
    with (
        mock.patch.object(VecISA, "check_build", _is_known),
        mock.patch.object(codecache, "_precompile_header", prepared.header),
        mock.patch.object(codecache, "CppBuilder", prepared.builder),
        mock.patch.object(CppWrapperCpu, "_write_aoti_interface_header", _declare_interface),
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


class _Prepared:
    """What is the same in all recipes of some compiler options, made once and kept in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._interface = ""  # the object file that goes with the wrapper's header

    def header(self, header: str, command_line: str, **command: Any) -> str:
        """The path of a header that includes `header`, with its precompiled form beside it."""
        from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions, get_compiler_version_info

        command.pop("extra_flags", None)  # for the linker
        option = CppTorchDeviceOptions(**command, precompiling=True)
        text = f"#include <{header}>\n"
        of_wrapper = command.get("min_optimize", False)
        interface = _interface(text) if of_wrapper else ""
        if of_wrapper:
            text += _REGEX.format(extern="extern ")
        same = CppBuilder(name="header.h", sources="header.h", BuildOption=option).get_command_line()
        compiler = get_compiler_version_info(option.get_compiler())
        build = (same, text, interface, compiler, torch_build(), vector_isa())
        folder = self._folder / hashlib.sha256(repr(build).encode()).hexdigest()[:32]
        if not (folder / "header.h").exists():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _tidy(self._folder)
            work = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=self._folder))
            try:
                (work / "header.h").write_text(text)
                CppBuilder(name=str(work / "header.h"), sources=str(work / "header.h"), BuildOption=option).build()
                if interface:
                    (work / "interface.cpp").write_text(interface)
                    CppBuilder(
                        name="interface", sources=str(work / "interface.cpp"), output_dir=str(work),
                        BuildOption=CppTorchDeviceOptions(**command, compile_only=True),
                    ).build()  # fmt: skip
                publish(work, folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.utime(folder)
        if of_wrapper:
            self._interface = str(folder / "interface.o")
        return str(folder / "header.h")

    def builder(self, name: str, sources: Any, BuildOption: Any, **options: Any) -> Any:
        """A CppBuilder; a library is linked with the interface."""
        from torch._inductor.cpp_builder import CppBuilder

        if isinstance(sources, list):
            sources = [*sources, self._interface]
        return CppBuilder(name=name, sources=sources, BuildOption=BuildOption, **options)


def _interface(header: str) -> str:
    """Inductor's C++ of the functions by which a library is called."""
    from torch._inductor.codegen import cpp_wrapper_cpu

    text = Path(cpp_wrapper_cpu.__file__).parent / "aoti_runtime" / "interface.cpp"
    definitions = _REGEX.format(extern="")
    return "#include <torch/csrc/inductor/aoti_include/cpu.h>\n" + header + text.read_text() + definitions


def _declare_interface(wrapper: Any) -> None:
    wrapper.header.splice("#include <torch/csrc/inductor/aoti_runtime/model_container.h>\n")
    wrapper.header.splice(kernel_marks.DECLARATION)


def _tidy(headers: Path) -> None:
    """Remove what processes left behind that died while they built, and what nobody used for a while."""
    for path in headers.iterdir():
        limit = _STALE_S if path.name.startswith(_BUILDING) else _UNUSED_S
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > limit:
                shutil.rmtree(path, ignore_errors=True)


def _without_checks(wrapper: Any) -> None:
    wrapper.prefix.splice_aot(_NO_CHECKS)
