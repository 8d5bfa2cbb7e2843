"""The command `openhpu tpc`."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from openhpu_tpc import building, intrinsics
from openhpu_tpc.compiling import GENERATIONS, Options
from openhpu_tpc.errors import BuildError


def main(arguments: Sequence[str]) -> int:
    """Run a subcommand. Returns the exit code: 0, 1 for a build that failed, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="openhpu tpc", description="TPC-C kernels on the CPU, inside PyTorch.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="compile kernels and glue code into a library for GC_KERNEL_PATH")
    build.add_argument(
        "sources",
        nargs="+",
        metavar="FILE",
        help="kernels (.c, NAME=FILE.c, NAME=FILE.c:-DX=1), glue (.cpp), descriptions (.toml)",
    )
    build.add_argument("-o", "--output", required=True, type=Path, metavar="LIBRARY", help="the library to write")
    build.add_argument("--debug", action="store_true", help="without optimisation, for gdb")
    build.add_argument("--march", default="native", help="processor, as g++ names it; x86-64-v3 runs on all with AVX2")
    build.add_argument("--generation", default="gaudi2", choices=list(GENERATIONS), help="whose macros kernels see")
    build.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]")
    build.add_argument("-I", dest="includes", action="append", default=[], type=Path, metavar="FOLDER")
    build.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the C++ that kernels become")
    listing = commands.add_parser("intrinsics", help="which intrinsics there are, and which are refused")
    listing.add_argument("name", nargs="?", help="only names that contain this")
    commands.add_parser("paths", help="the folders of headers and of the CMake module")
    options = parser.parse_args(list(arguments))
    if options.command == "paths":
        here = Path(building.INCLUDE)
        print(f"include {here / 'glue'}\ncmake {here.parent / 'cmake'}")
        return 0
    if options.command == "intrinsics":
        return _list(options.name or "")
    chosen = Options(options.march, options.debug, options.generation, options.defines, options.includes)
    try:
        kernels = building.build(options.sources, options.output, chosen, options.keep)
    except BuildError as error:
        print(f"openhpu tpc build: {error}", file=sys.stderr)
        return 1
    print(f"{options.output}: {len(kernels)} kernels")
    return 0


def _list(part: str) -> int:
    """Each name with its state, and how many have each."""
    chosen = [each for name, each in sorted(intrinsics.intrinsics().items()) if part in name]
    states = [_state(each) for each in chosen]
    for each, state in zip(chosen, states, strict=True):
        print(f"{each.name}\t{state}")
    counted = Counter(state.partition(":")[0] for state in states)
    print(", ".join(f"{count} {state}" for state, count in sorted(counted.items())))
    return 0 if chosen else 1


def _state(intrinsic: intrinsics.Intrinsic) -> str:
    if intrinsic.refused:
        return f"refused: {intrinsic.refused}"
    return "implemented" if intrinsic.name in intrinsics.tested() else "there, without a test of its own"
