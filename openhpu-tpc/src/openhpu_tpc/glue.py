"""What glue code expects of the linker: symbols around each kernel, `_binary_NAME_o_start`, `_end` and `_size`."""

import re
from pathlib import Path

from openhpu_tpc.compiling import Compiled, Options, run
from openhpu_tpc.errors import BuildError

_SYMBOL = re.compile(r"^_binary_(?P<name>\w+?)(?:_o)?_(?P<end>start|end|size)$")
MARKER_BYTES = 64


def undefined(objects: list[Path]) -> list[str]:
    """The symbols of kernels that the glue's objects leave open."""
    if not objects:
        return []
    listed = run(["nm", "-u", *map(str, objects)], "the glue")
    symbols = {line.split()[-1] for line in listed.splitlines() if line.strip() and not line.endswith(":")}
    return sorted(symbol for symbol in symbols if symbol.startswith("_binary_"))


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", text).strip("_").lower()


def kernel_of(symbol: str, kernels: list[Compiled]) -> int:
    """Which kernel a symbol is about: the one whose name its own ends with. Raises BuildError if there is none."""
    match = _SYMBOL.match(symbol)
    wanted = _plain(match.group("name")) if match else _plain(symbol)
    names = [_plain(kernel.source.name) for kernel in kernels]
    fitting = [name for name in names if wanted == name or wanted.endswith("_" + name)]
    if not fitting:
        listed = ", ".join(kernel.source.name for kernel in kernels) or "none"
        raise BuildError(
            f"the glue asks for the symbol {symbol}, and no kernel has its name. Kernels: {listed}. "
            f"Give the source {wanted}.c, or NAME=FILE.c"
        )
    return names.index(max(fitting, key=len))


def markers(symbols: list[str], kernels: list[Compiled], folder: Path, options: Options) -> list[Path]:
    """An object that defines the symbols: markers with the numbers of the kernels."""
    if not symbols:
        return []
    lines = [".section .rodata", ".balign 64"]
    numbers: dict[int, set[str]] = {}
    for symbol in symbols:
        numbers.setdefault(kernel_of(symbol, kernels), set()).add(symbol)
    for number, names in sorted(numbers.items()):
        for name in sorted(names):
            lines += [f".globl {name}", f".hidden {name}"]
            if name.endswith("_size"):
                lines.append(f".set {name}, {MARKER_BYTES}")
        lines += [f"{name}:" for name in sorted(names) if name.endswith("_start")]
        lines += ['.ascii "OpenHPU TPC kernel"', ".zero 6", f".long {number}", ".long 0x74706331", ".zero 32"]
        lines += [f"{name}:" for name in sorted(names) if name.endswith("_end")]
        lines.append(".zero 64")
    source = folder / "markers.s"
    source.write_text("\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""]))
    built = folder / "markers.o"
    run([options.compiler, "-c", str(source), "-o", str(built)], "the symbols of the kernels")
    return [built]
