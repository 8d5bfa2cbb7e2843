"""One kernel: preprocessed, rewritten, checked for intrinsics, and compiled."""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from openhpu_tpc import declared, intrinsics, rewriting
from openhpu_tpc.declared import GENERATIONS
from openhpu_tpc.errors import BuildError

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
_CALL = re.compile(r"^(?:v|s|i)_(?:f32|bf16|f16|f8|h8|[iu](?:32|16|8|4)|i1|convert)_\w+$")
_SECONDS = 300
_SEEN_BY_KERNELS = ("-D__TPC__=1", "-DMAX_TENSORS=16", "-D__LINE_TABLES__=1")
FLAGS = [
    "-std=gnu++20",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
    "-fno-rtti",
    "-fpermissive",
    "-fno-operator-names",
    "-w",
    "-fmax-errors=20",
]


@dataclass
class Options:
    """How to compile. `march` is a name that g++ knows; `defines` and `includes` are for kernels and glue."""

    march: str = "native"
    debug: bool = False
    generation: str = "gaudi2"
    defines: list[str] = field(default_factory=list)
    includes: list[Path] = field(default_factory=list)
    compiler: str = "g++"
    checks: bool = True  # build the variant with checks, too

    def target(self) -> list[str]:
        """Flags for the machine and for speed."""
        return [f"-march={self.march}", *self._speed()]

    def _speed(self) -> list[str]:
        return ["-O0", "-g3"] if self.debug else ["-O3", "-g1"]

    def checked(self) -> list[str]:
        """Flags for the variant with checks."""
        return [f"-march={self.march}", "-DTPC_CHECKED=1", *self._speed()]


@dataclass
class Source:
    """A kernel to build: its file, its name, and what is defined for it."""

    path: Path
    name: str
    defines: list[str] = field(default_factory=list)


@dataclass
class Compiled:
    """A kernel that is built."""

    source: Source
    object: Path
    parameters: list[rewriting.Parameter]
    checked: Path | None = None  # the variant with checks
    lacking: tuple[str, ...] = ()  # what the generation does not have, each with its place
    local: str = ""  # where variables in local memory are declared

    @property
    def tensors(self) -> int:
        """How many tensors `main` takes."""
        return sum(each.is_tensor for each in self.parameters)

    @property
    def scalars(self) -> int:
        """How many numbers `main` takes."""
        return len(self.parameters) - self.tensors


def run(command: list[str], what: str) -> str:
    """Run a program of the compiler and return what it prints. Raises BuildError with its messages."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except FileNotFoundError:
        raise BuildError(f"{what}: there is no program {command[0]}. Install it, or name another with CXX") from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"{what}: {command[0]} took more than {_SECONDS} s") from None
    if done.returncode:
        raise BuildError(f"{what}: {_readable(done.stderr or done.stdout)}")
    return done.stdout


def _readable(messages: str) -> str:
    """The compiler's messages about the user's files, or all of them."""
    lines = [
        line for line in messages.splitlines() if not line.startswith(("In file included", "                 from"))
    ]
    errors = [line for line in lines if re.search(r"(?:error|Error|undefined)", line)]
    return "\n".join(errors or lines[:20])


def preprocessed(source: Source, options: Options) -> str:
    """The source behind the preprocessor, with marks of files and lines."""
    generation = GENERATIONS[options.generation]
    known = [f"-D__{name}__=1" for name, number in GENERATIONS.items() if number == generation]
    known += [f"-D__{name}_plus__=1" for name, number in GENERATIONS.items() if number <= generation]
    command = [options.compiler, "-E", "-x", "c", "-std=gnu99", "-undef", "-nostdinc", *_SEEN_BY_KERNELS, *known]
    command += ["-D__greco_plus__=1"] if generation > 1 else []
    command += [f"-I{folder}" for folder in [source.path.parent, *options.includes]]
    command += ["-isystem", str(INCLUDE / "c"), *_limits()]
    command += [f"-D{each}" for each in [*options.defines, *source.defines]]
    return run([*command, str(source.path)], f"{source.path}")


def _limits() -> list[str]:
    """Names of <limits.h> and <float.h> that kernels use without including anything."""
    return [
        "-DINT_MAX=2147483647",
        "-DINT_MIN=(-2147483647-1)",
        "-DUINT_MAX=4294967295u",
        "-DFLT_MAX=3.40282347e+38f",
        "-DFLT_MIN=1.17549435e-38f",
        "-DFLT_EPSILON=1.19209290e-07f",
    ]


def compile_kernel(source: Source, number: int, folder: Path, options: Options) -> Compiled:
    """Compile one kernel into `folder`. Raises BuildError, which names the user's file and line."""
    text = preprocessed(source, options)
    try:
        kernel = rewriting.rewrite(text)
    except rewriting.SourceError as error:
        raise BuildError(f"{source.path}: {error}") from None
    used = _used(kernel.called, text, source)
    lacking = [(each.name, declared.lacking(each.name, options.generation)) for each in used]
    missing = tuple(f"{_place(text, name, source)}: {why}" for name, why in lacking if why)
    for warning in kernel.warnings:
        print(f"{warning.file}:{warning.line}: warning: {warning.message}", file=sys.stderr)
    for each in missing:
        print(each.replace(": ", ": warning: ", 1), file=sys.stderr)
    stem = f"{number}_{re.sub(r'[^A-Za-z0-9]', '_', source.name)}"
    built = _object(folder / f"{stem}.cpp", _translation(kernel, used, number), source, options, options.target())
    local = ", ".join(f"{_place(text, name, source)} {name}" for name in kernel.local)
    return Compiled(source, built, kernel.parameters, None, missing, local)


def compile_checked(source: Source, number: int, folder: Path, options: Options) -> Path:
    """The same kernel with checks. Raises BuildError."""
    text = preprocessed(source, options)
    try:
        kernel = rewriting.rewrite(text, checked=True)
    except rewriting.SourceError as error:
        raise BuildError(f"{source.path}: {error}") from None
    used = _used(kernel.called, text, source)
    stem = f"{number}_{re.sub(r'[^A-Za-z0-9]', '_', source.name)}_checked"
    translated = _translation(kernel, used, number, checked=True)
    return _object(folder / f"{stem}.cpp", translated, source, options, options.checked())


def _object(cpp: Path, text: str, source: Source, options: Options, flags: list[str]) -> Path:
    cpp.write_text(text)
    built = cpp.with_suffix(".o")
    generation = f"-D__{options.generation}__=1"
    files = ["-c", str(cpp), "-o", str(built)]
    run([options.compiler, *FLAGS, *flags, generation, f"-I{INCLUDE}", *files], f"{source.path}")
    return built


def _used(called: frozenset[str], text: str, source: Source) -> list[intrinsics.Intrinsic]:
    known = intrinsics.intrinsics()
    refused = []
    for word in sorted(called):
        if word in known and known[word].refused:
            refused.append(f"{_place(text, word, source)}: error: {word}: {known[word].refused}")
        elif word not in known and _CALL.match(word):
            refused.append(f"{_place(text, word, source)}: error: {word}: there is no intrinsic of this name")
    if refused:
        raise BuildError("\n".join(refused))
    return [known[word] for word in sorted(called) if word in known]


def _place(text: str, word: str, source: Source) -> str:
    """The file and line where a word occurs first."""
    file, number = str(source.path), 0
    for line in text.split("\n"):
        marker = re.match(r'#\s*(?:line\s+)?(\d+)\s+"([^"]*)"', line)
        if marker:
            number, file = int(marker.group(1)) - 1, marker.group(2)
            continue
        number += 1
        if re.search(rf"\b{word}\b", line):
            return f"{file}:{number}"
    return file


def _translation(kernel: rewriting.Kernel, used: list[intrinsics.Intrinsic], number: int, checked: bool = False) -> str:
    functions = "".join(intrinsics.definition(each, checked) for each in used)
    arguments, tensors, scalars = [], 0, 0
    for parameter in kernel.parameters:
        if parameter.is_tensor:
            arguments.append(str(tensors))
            tensors += 1
        else:
            arguments.append(f"::tpc::scalar<{parameter.type}>(scalars[{scalars}])")
            scalars += 1
    entry = f"{rewriting.ENTRY}({', '.join(arguments)})"
    name = f"tpc_checked_{number}" if checked else f"tpc_entry_{number}"
    text = (
        f'#include "tpc.h"\n{functions}namespace {{\n{kernel.text}\n}}\n#line 1 "entry of the kernel"\n'
        f'extern "C" void {name}(const uint32_t* scalars) {{ (void)scalars; {entry}; }}\n'
    )
    if checked:
        size = " + ".join(["0", *(f"sizeof({each})" for each in kernel.local)])
        text += f'extern "C" const uint32_t tpc_local_{number};\nconst uint32_t tpc_local_{number} = {size};\n'
    return text
