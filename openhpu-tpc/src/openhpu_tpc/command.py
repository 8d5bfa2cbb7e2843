"""The command `openhpu tpc`."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from openhpu_tpc import building, declared, intrinsics
from openhpu_tpc.compiling import GENERATIONS, Options
from openhpu_tpc.errors import BuildError


def _parser() -> argparse.ArgumentParser:
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
    build.add_argument("--no-checks", action="store_true", help="without the variant that OPENHPU_CHECK_KERNELS runs")
    build.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the C++ that kernels become")
    check = commands.add_parser("check", help="run a kernel on random tensors with checks, and print its account")
    check.add_argument("library", type=Path, metavar="LIBRARY", help="what `openhpu tpc build` has written")
    check.add_argument("guid", metavar="GUID")
    check.add_argument("-i", "--input", action="append", default=[], metavar="TENSOR", help="such as f32[5,100]")
    check.add_argument("-o", "--output", action="append", default=[], metavar="TENSOR")
    check.add_argument("-p", "--param", action="append", default=[], metavar="NUMBER", help="a word of the params")
    check.add_argument("--complete", action="store_true", help="an element of an output that nobody writes is an error")
    check.add_argument("--generation", default="gaudi2", choices=list(declared.GENERATIONS))
    listing = commands.add_parser("intrinsics", help="which intrinsics there are, and which are refused")
    listing.add_argument("name", nargs="?", help="only names that contain this")
    listing.add_argument("--page", action="store_true", help="the page of all names, in Markdown")
    commands.add_parser("paths", help="the folders of headers and of the CMake module")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run a subcommand. Returns the exit code: 0, 1 for a build that failed, 2 for wrong arguments."""
    options = _parser().parse_args(list(arguments))
    if options.command == "paths":
        here = Path(building.INCLUDE)
        print(f"include {here / 'glue'}\ncmake {here.parent / 'cmake'}")
        return 0
    if options.command == "intrinsics" and options.page:
        print(declared.page(), end="")
        return 0
    if options.command == "intrinsics":
        return _list(options.name or "")
    if options.command == "check":
        from openhpu_tpc import checking  # needs PyTorch, which builds do not

        given = (options.library, options.guid, options.input, options.output, options.param)
        try:
            return checking.check(*given, options.generation, options.complete)
        except BuildError as error:
            print(f"openhpu tpc check: {error}", file=sys.stderr)
            return 2
    chosen = Options(options.march, options.debug, options.generation, options.defines, options.includes)
    chosen.checks = not options.no_checks
    try:
        kernels = building.build(options.sources, options.output, chosen, options.keep)
    except BuildError as error:
        print(f"openhpu tpc build: {error}", file=sys.stderr)
        return 1
    print(f"{options.output}: {len(kernels)} kernels")
    return 0


def _list(part: str) -> int:
    """Each name with its state, and how many have each."""
    names = sorted(set(intrinsics.intrinsics()) | set(declared.declared()))
    chosen = [name for name in names if part in name]
    states = [declared.state(name) for name in chosen]
    for name, state in zip(chosen, states, strict=True):
        print(f"{name}\t{state}")
    counted = Counter(state.partition(":")[0] for state in states)
    print(", ".join(f"{count} {state}" for state, count in sorted(counted.items())))
    return 0 if chosen else 1
