"""A faster use of the C++ compiler by Inductor.

Without this module the preparation of a first recipe takes longer than its compilation. Inductor compiles a dozen
programs to try instruction sets. It preprocesses headers to see whether their precompiled form is current. The
generated wrapper checks its inputs in code that takes longer to compile than the rest and never runs. Each wrapper also
holds the library's interface, which is always the same and takes four fifths of the remaining time. Here the interface
is an object file that was compiled with the core (CMakeLists.txt), with the code of the wrapper's one regular
expression. A recipe is linked with it.

A precompiled header takes three times as long as reading the header in one file does. So the first recipes read
headers, and precompiled ones are made behind them (`precompile_behind`).
"""

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from openhpu import _machine, settings
from openhpu.compiler.client.disk_cache import own_folder, temporary_folder
from openhpu.compiler.client.identity import cxx, cxx_options, torch_build, vector_isa
from openhpu.compiler.compile_phases import CPP, phases
from openhpu.compiler.inductor import kernel_marks, products, user_kernels
from openhpu.settings import folders

_headers: dict[str, Callable[[], None]] = {}  # to precompile, by path
_BUILDING = ".building-"
_STALE_S = 3600
_UNUSED_S = 30 * 24 * 3600
_LATER_NICE = 5  # of a recipe's C++ compilers after the first

# Where one of these is defined, PyTorch's headers include those of all the processor's vectors.
_VECTORS = ("CPU_CAPABILITY_AVX2", "CPU_CAPABILITY_AVX512", "__F16C__")

_NO_CHECKS = """
static bool _check_aoti_runtime_check_inputs_env() { return false; }
AOTI_NOINLINE static void __check_inputs_outputs(AtenTensorHandle*, AtenTensorHandle*) {}
"""

_REGEX = Path(__file__).parent / "regex.h"
_CASTS = Path(__file__).parent / "casts.h"
_INTERFACE = Path(_machine.__file__).parent / "cores" / ".".join(torch.__version__.split(".")[:2]) / "interface.o"


@contextlib.contextmanager
def quick(work: Path) -> "Iterator[Prepared]":
    """While it lasts, Inductor takes the short cuts. Where precompiled headers can't be kept for the user, they
    lie beside `work`, for the next recipe there."""
    from torch._inductor import codecache, cpp_builder
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
    from torch._inductor.cpu_vec_isa import VecISA

    original = cpp_builder._get_os_related_cpp_cflags
    pool = ThreadPoolExecutor(min(2, len(os.sched_getaffinity(0))), "compiler")
    prepared = Prepared(header_folder() or work.parent / ".headers", pool)
    try:
        with (
            mock.patch.object(VecISA, "check_build", _is_known),
            mock.patch.multiple(codecache, _precompile_header=prepared.header, CppBuilder=prepared.builder),
            mock.patch.object(cpp_builder, "_get_os_related_cpp_cflags", functools.partial(_unloadable, original)),
            mock.patch.object(CppWrapperCpu, "_write_aoti_interface_header", _declare_interface),
            mock.patch.object(CppWrapperCpu, "generate_input_output_runtime_checks", _without_checks),
        ):
            yield prepared
    finally:
        pool.shutdown(cancel_futures=True)  # builds that have not begun; it waits for the rest


def header_folder() -> Path | None:
    """Keeps precompiled headers from one recipe to the next, wherever recipes are kept: 300 MB for each set of compiler
    options. Only its owner may write there; None where that is not so."""
    chosen = settings.get("OPENHPU_HEADER_CACHE")
    folder = Path(os.path.abspath(os.path.expanduser(chosen))) if chosen else folders.user_cache() / "headers"
    return folder if own_folder(folder) else None


def _unloadable(original: Callable[[str], list[str]], compiler: str) -> list[str]:
    """Flags with which a library can be unloaded: GCC marks inline variables as unique in the process, and a library
    that has one stays mapped for ever."""
    flag = "-fno-gnu-unique"
    return [*original(compiler), *([flag[1:]] if _accepts(compiler, flag) else [])]


def _is_known(isa: Any, code: str) -> bool:
    """Whether the compiler knows the instruction set. That the processor has it was asked before."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    return _accepts(get_cpp_compiler(), isa._arch_flags)


@functools.cache
def _accepts(compiler: str, flags: str) -> bool:
    options = [flag if flag.startswith("-") else f"-{flag}" for flag in flags.split()]
    command = [compiler, *options, "-x", "c++", "-fsyntax-only", "/dev/null"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class Prepared:
    """Builds for recipes. `folder` keeps the parts that all recipes with the same compiler options share; they are
    built once. `pool` compiles the parts of a single recipe."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self._folder = folder
        self._pool = pool
        self._objects: list[Future[None]] = []  # of the recipe

    def ahead(self) -> None:
        """Begin with the files that a recipe with Inductor's present options needs."""
        from torch._inductor import codecache
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        # As codecache.AotCodeCompiler has them, but for large weights.
        command = {
            "aot_mode": True,
            "device_type": "cpu",
            "use_mmap_weights": False,
            "use_mmap_weights_external": False,
            "use_relative_path": False,
            "vec_isa": pick_vec_isa(),
        }
        self.header(codecache._get_cpp_wrapper_header("cpu", aot_mode=True), "", min_optimize=True, **command)
        if prefix := codecache._get_cpp_prefix_header("cpu"):
            self.header(prefix, "", **command)

    def header(self, header: str, command_line: str, **command: Any) -> str:
        """The path of a header that includes `header`; its precompiled form is beside it once that is made."""
        from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions

        command.pop("extra_flags", None)  # for the linker
        option = CppTorchDeviceOptions(**command, precompiling=True)
        text = f"#include <{header}>\n"
        if command.get("min_optimize", False):  # the wrapper's, which needs no vectors: a quarter of its time
            text = "".join(f"#undef {macro}\n" for macro in _VECTORS) + text
            text += "#define OPENHPU_EXTERN extern\n" + _REGEX.read_text()
        else:
            text += _CASTS.read_text()
        folder = self._folder_of(text, option)
        path = folder / "header.h"
        if not path.exists():
            with self._begun() as work:
                (work / path.name).write_text(text)
                folder.mkdir(mode=0o700, exist_ok=True)
                (work / path.name).replace(path)
        if not (folder / "header.h.gch").exists():

            def precompile() -> None:
                with self._begun() as work:
                    source = str(work / path.name)
                    shutil.copyfile(path, source)
                    _run(CppBuilder(name=source, sources=source, output_dir=str(work), BuildOption=option), work)
                    (work / "header.h.gch").replace(folder / "header.h.gch")

            _headers.setdefault(str(path), precompile)
        return str(path)

    def _folder_of(self, text: str, option: Any) -> Path:
        """The folder of the header with this text, compiled with these options. Notes that the header is used."""
        from torch._inductor.cpp_builder import CppBuilder

        same = CppBuilder(name="header.h", sources="header.h", BuildOption=option).get_command_line()
        build = (same, text, cxx(), *cxx_options(), torch_build(), vector_isa())
        folder = self._folder / hashlib.sha256(repr(build).encode()).hexdigest()[:32]
        with contextlib.suppress(OSError):
            os.utime(folder)
        return folder

    def _begun(self) -> AbstractContextManager[Path]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _tidy(self._folder)
        return temporary_folder(_BUILDING, self._folder)

    def builder(self, name: str, sources: Any, BuildOption: Any, **options: Any) -> Any:
        """A CppBuilder. What has a precompiled header is built beside other things; a library waits for them, and is
        linked with the interface."""
        from torch._inductor.cpp_builder import CppBuilder

        library = isinstance(sources, list)
        if library:
            sources = [*sources, str(_INTERFACE)]
        made: Any = CppBuilder(name=name, sources=sources, BuildOption=BuildOption, **options)
        if library:
            made.build = functools.partial(self._link, made.build)
        elif BuildOption.precompiled_header:
            work = Path(made.get_target_file_path()).parent

            def build() -> None:
                # Where the script needs a core, the first one gets the other.
                nice = _LATER_NICE if self._objects else 0
                self._objects.append(self._pool.submit(_run, made, work, nice))

            made.build = build
        return made

    def _link(self, build: Any) -> None:
        with phases.phase(CPP):
            for built in self._objects:
                built.result()
            build()


def precompile_behind() -> bool:
    """Precompile a header that recipes of this process read as text. False if there is none."""
    if not _headers:
        return False
    with contextlib.suppress(Exception):  # recipes say what is wrong
        _headers.pop(next(iter(_headers)))()
    return True


def _run(builder: Any, work: Path, nice: int = 0) -> None:
    from torch._inductor import cpp_builder

    # Without the times that Inductor takes: they belong to the thread that it runs in.
    command = builder.get_command_line()
    cpp_builder._run_compile_cmd(f"nice -n {nice} {command}" if nice else command, str(work))


def _declare_interface(wrapper: Any) -> None:
    wrapper.header.splice("#include <torch/csrc/inductor/aoti_runtime/model_container.h>\n")
    wrapper.header.splice(kernel_marks.DECLARATION)
    wrapper.header.splice(products.DECLARATION)
    wrapper.header.splice(user_kernels.DECLARATION)


def _tidy(headers: Path) -> None:
    """Remove files of processes that died while they built, and files that were unused for a while."""
    for path in headers.iterdir():
        limit = _STALE_S if path.name.startswith(_BUILDING) else _UNUSED_S
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > limit:
                shutil.rmtree(path, ignore_errors=True)


def _without_checks(wrapper: Any) -> None:
    wrapper.prefix.splice_aot(_NO_CHECKS)
