"""`openhpu tpc build`: kernels and glue code become a library for GC_KERNEL_PATH."""

import contextlib
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from openhpu.settings.folders import opened, replacing, user_cache
from openhpu_tpc import compiling, description, glue
from openhpu_tpc.compiling import INCLUDE, Compiled, Options, Source, run
from openhpu_tpc.errors import BuildError

_RUNNER = ("interrupt", "glue_calls", "checking", "running", "places", "library")
_RUNNER_FLAGS = ("-std=gnu++20", "-fPIC", "-fvisibility=hidden", "-O1", "-g1", "-w")
_FEATURES = ("avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl")
_GLUE = (".cpp", ".cc", ".cxx")


@dataclass
class Inputs:
    """What the command was given, by kind."""

    kernels: list[Source]
    glue: list[Path]
    described: list[description.Described]


def sort_inputs(given: Sequence[str]) -> Inputs:
    """Kernels (`FILE.c`, `NAME=FILE.c`, `NAME=FILE.c:-DX=1:-DY`), glue (`.cpp`) and descriptions (`.toml`)."""
    inputs = Inputs([], [], [])
    # Descriptions come last, because they add the sources that nobody has named.
    for each in sorted(given, key=lambda one: one.endswith(".toml")):
        name, _, rest = each.rpartition("=") if _names_kernel(each) else ("", "", each)
        if _names_kernel(each):
            name, _, rest = each.partition("=")
        file, *defines = re.split(r":(?=-D)", rest)
        path = Path(file)
        if path.suffix == ".s":
            raise BuildError(
                f"{path}: it is assembly of a card's processor, which does not run here. Give its source in TPC-C"
            )
        if not path.is_file():
            raise BuildError(f"{path}: there is no such file")
        if path.suffix == ".c":
            inputs.kernels.append(Source(path, name or path.stem, [define[2:] for define in defines]))
        elif path.suffix in _GLUE:
            inputs.glue.append(path)
        elif path.suffix == ".toml":
            inputs.described += _of_description(path, inputs)
        elif path.suffix in (".o", ".elf"):
            raise BuildError(
                f"{path}: it is a program that is compiled already. Give the sources of kernels (.c) and glue (.cpp)"
            )
        else:
            raise BuildError(f"{path}: kernels end in .c, glue in .cpp, descriptions in .toml")
    if not inputs.kernels:
        raise BuildError("no kernel was given: name its source, which ends in .c")
    names = [source.name for source in inputs.kernels]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise BuildError(f"two kernels have the name {twice}; name one of them otherwise, with NAME=FILE.c")
    if not inputs.glue and not inputs.described:
        raise BuildError("no glue was given: add its .cpp, or a .toml that describes the kernels")
    return inputs


def _names_kernel(given: str) -> bool:
    return re.match(r"^[A-Za-z_]\w*=", given) is not None


def _of_description(path: Path, inputs: Inputs) -> list[description.Described]:
    """The kernels of a description; sources that the command does not name are added."""
    kernels = description.read(path)
    for kernel in kernels:
        beside = path.parent / kernel.source
        if (
            beside.suffix == ".c"
            and beside.is_file()
            and all(source.path.resolve() != beside.resolve() for source in inputs.kernels)
        ):
            inputs.kernels.append(Source(beside, beside.stem))
    return kernels


def build(given: Sequence[str], output: Path, options: Options, keep: Path | None = None) -> list[Compiled]:
    """Build the library. Returns its kernels. Raises BuildError."""
    inputs = sort_inputs(given)
    options.compiler = os.environ.get("CXX", options.compiler)
    with tempfile.TemporaryDirectory(prefix="openhpu-tpc-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        kernels = _compiled(inputs.kernels, folder, options)
        glues = _glue_objects(inputs, folder, options)
        symbols = glue.undefined(glues)
        objects = [kernel.object for kernel in kernels] + glues
        objects += [kernel.checked for kernel in kernels if kernel.checked]
        objects += glue.markers(symbols, kernels, folder, options)
        objects += _runner_objects(kernels, folder, options)
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [options.compiler, "-shared", "-o", str(output), *map(str, objects)]
        run([*command, "-Wl,--no-undefined", "-ldl", "-lm"], "linking")
    return kernels


def _compiled(sources: list[Source], folder: Path, options: Options) -> list[Compiled]:
    """The kernels, some at a time. The errors of all are raised together."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        numbered = list(enumerate(sources))
        plain = [pool.submit(compiling.compile_kernel, source, number, folder, options) for number, source in numbered]
        checked = [
            pool.submit(compiling.compile_checked, source, number, folder, options)
            for number, source in numbered
            if options.checks
        ]
    failed = [str(error) for future in plain if isinstance(error := future.exception(), BuildError)]
    if failed:
        raise BuildError("\n".join(failed))
    kernels = [future.result() for future in plain]
    for kernel, future in zip(kernels, checked, strict=False):
        try:
            kernel.checked = future.result()
        except BuildError as error:
            print(f"{kernel.source.path}: warning: it is built without checks: {error}", file=sys.stderr)
    return kernels


def _glue_objects(inputs: Inputs, folder: Path, options: Options) -> list[Path]:
    sources = list(inputs.glue)
    if inputs.described:
        written = folder / "described.cpp"
        written.write_text(description.glue_of(inputs.described))
        sources.append(written)
    folders = [f"-I{each}" for each in [*options.includes, INCLUDE / "glue"]]
    defines = [f"-D{each}" for each in options.defines]
    objects = []
    for number, source in enumerate(sources):
        built = folder / f"glue{number}_{source.stem}.o"
        flags = [
            "-std=gnu++17",
            "-fPIC",
            "-fvisibility=hidden",
            "-O1",
            "-g1",
            "-w",
            *defines,
            f"-I{source.parent}",
            *folders,
        ]
        run([options.compiler, *flags, "-c", str(source), "-o", str(built)], f"{source}")
        objects.append(built)
    return objects


def _text(value: object) -> str:
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _runner_objects(kernels: list[Compiled], folder: Path, options: Options) -> list[Path]:
    """The runner, and the table of kernels. They use no instructions that a processor may lack."""
    entries = "".join(_entries(number, kernel) for number, kernel in enumerate(kernels))
    rows = "".join(_row(number, kernel) for number, kernel in enumerate(kernels))
    features = "".join(f'"{feature}", ' for feature in _needed(options))
    table = folder / "table.cpp"
    table.write_text(
        f'#include "registry.h"\n\nextern "C" {{\n{entries}}}\nnamespace tpc {{\n'
        f"const KernelEntry kernels[] = {{\n{rows}}};\nconst int kernel_count = {len(kernels)};\n"
        f"const char* const required_features[] = {{{features}nullptr}};\n"
        f"const char* const built_for = {_text(options.generation)};\n}}  // namespace tpc\n"
    )
    built = folder / "table.o"
    flags = [*_RUNNER_FLAGS, f"-I{INCLUDE / 'runner'}"]
    run([options.compiler, *flags, "-c", str(table), "-o", str(built)], "the table of the kernels")
    return [built, _runner(folder, options)]


def _runner(folder: Path, options: Options) -> Path:
    """The runner's object. It is compiled once for each version of it and of the compiler, and kept for the user."""
    sources = [INCLUDE / "runner" / f"{name}.cpp" for name in _RUNNER]
    folders = [INCLUDE, INCLUDE / "runner", INCLUDE / "glue"]
    interface = interface_folder()
    if interface:
        sources.append(INCLUDE / "runner" / "adapter.cpp")
        folders.append(interface)
    text = "".join(f"#include {_text(source)}\n" for source in sources)
    flags = [*_RUNNER_FLAGS, *(f"-I{each}" for each in folders)]
    headers = sorted(path for each in folders for path in each.rglob("*.h"))
    contents = b"".join(path.read_bytes() for path in (*sources, *headers))
    version = run([options.compiler, "--version"], "the compiler").encode()
    key = hashlib.sha256(b"\0".join([text.encode(), repr(flags).encode(), version, contents])).hexdigest()[:20]
    kept = user_cache() / "tpc" / f"runner-{key}.o"
    built = folder / "runner.o"
    with contextlib.suppress(OSError), open(opened(kept, os.O_RDONLY), "rb") as file:
        if os.fstat(file.fileno()).st_uid in (0, os.geteuid()):
            built.write_bytes(file.read())
            return built
    together = folder / "runner.cpp"
    together.write_text(text)
    run([options.compiler, *flags, "-c", str(together), "-o", str(built)], "the runner")
    with contextlib.suppress(OSError), replacing(kept, "xb") as file:
        file.write(built.read_bytes())
    return built


def _entries(number: int, kernel: Compiled) -> str:
    declared = f"void tpc_entry_{number}(const uint32_t*);\n"
    if kernel.checked:
        declared += f"void tpc_checked_{number}(const uint32_t*);\nextern const uint32_t tpc_local_{number};\n"
    return declared


def _row(number: int, kernel: Compiled) -> str:
    checked = f"tpc_checked_{number}, &tpc_local_{number}" if kernel.checked else "nullptr, nullptr"
    return (
        f"    {{{_text(kernel.source.name)}, {_text(kernel.source.path)}, tpc_entry_{number}, {kernel.tensors}, "
        f"{kernel.scalars}, {checked}, {_text(kernel.local)}, {_lines(kernel.lacking)}}},\n"
    )


def _lines(lines: Sequence[str]) -> str:
    return _text("\n".join(lines))


def _needed(options: Options) -> list[str]:
    """The features of the processor that the kernels use."""
    macros = run([options.compiler, f"-march={options.march}", "-dM", "-E", "-x", "c++", "/dev/null"], "the compiler")
    return [feature for feature in _FEATURES if f"#define __{feature.upper()}__ 1" in macros]


def interface_folder() -> Path | None:
    """Where OpenHPU's headers for custom operators are; None if this OpenHPU has none."""
    try:
        from habana_frameworks.torch.utils import lib_utils
    except ImportError:
        return None
    folder = Path(lib_utils.get_include_dir())
    return folder if (folder / "openhpu" / "kernel_library.h").is_file() else None
