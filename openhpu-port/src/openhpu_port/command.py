"""`openhpu port`: a script or folder with the names of another device, as a diff or in place."""

import argparse
import difflib
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from openhpu_port.errors import PortError
from openhpu_port.rewriting import Ported, port
from openhpu_port.settings import SUFFIXES, port_settings
from openhpu_port.table import TARGETS, from_cuda, to_device

_GIT_S = 60.0
_MOST_BYTES = 1 << 20  # of settings in a folder: larger files are data
_OURS = re.compile(rb"(?i)hpu|habana|gaudi|hccl")


def main(arguments: Sequence[str]) -> int:
    """Run the subcommand. Returns the exit code: 1 if something is listed, 2 if nothing could be ported."""
    parser = argparse.ArgumentParser(
        prog="openhpu port",
        usage="openhpu port (--to cuda|xpu|cpu | --from cuda) [--write [--force]] PATH",
        description="Take Gaudi's names out of a script or a folder. Prints a diff; lists on stderr what is left.",
    )
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--to", choices=TARGETS, help="the device whose names take the place of Gaudi's")
    way.add_argument("--from", choices=("cuda",), dest="source", help="write Gaudi's names in place of CUDA's")
    parser.add_argument("--write", action="store_true", help="write the files instead of printing a diff")
    parser.add_argument("--force", action="store_true", help="write also where git has uncommitted changes")
    parser.add_argument("path", metavar="PATH", type=Path)
    options = parser.parse_args(arguments)
    table = from_cuda() if options.source else to_device(options.to)
    try:
        files = _files(options.path)
        if options.write and not options.force:
            _check_committed(options.path)
        listed, done = 0, 0
        for file in files:
            try:
                source = file.read_bytes()
                ported = (port_settings if file.suffix in SUFFIXES else port)(source, table)
            except (PortError, OSError) as error:
                if file != options.path and file.suffix in SUFFIXES and not _OURS.search(source):
                    continue
                print(f"{file}: {error}", file=sys.stderr)
                listed += 1
                continue
            done += 1
            if options.write and ported.text != source:
                file.write_bytes(ported.text)
            elif not options.write:
                sys.stdout.writelines(_diff(file, source, ported))
            for problem in ported.problems:
                print(f"{file}:{problem.line}: {problem.what}: {problem.reason}", file=sys.stderr)
            listed += len(ported.problems)
        if not done:
            raise PortError("no file could be ported")
    except (PortError, OSError) as error:
        print(f"openhpu port: {error}", file=sys.stderr)
        return 2
    return int(listed > 0)


def _files(path: Path) -> list[Path]:
    """The scripts and settings of a path, without hidden folders. Raises PortError."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise PortError(f"there is no {str(path)!r}; expected a script or a folder")
    found = [
        one
        for one in sorted(path.rglob("*"))
        if one.suffix == ".py" or (one.suffix in SUFFIXES and one.is_file() and one.stat().st_size < _MOST_BYTES)
        if not any(part[0] == "." for part in one.relative_to(path).parts)
    ]
    if not any(one.suffix == ".py" for one in found):
        raise PortError(f"{str(path)!r} has no Python files (*.py); expected a script or a folder with scripts")
    return found


def _check_committed(path: Path) -> None:
    """Raises PortError if the path is in a git tree with uncommitted changes."""
    folder = path if path.is_dir() else path.parent
    try:
        found = subprocess.run(
            ["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True, timeout=_GIT_S
        )
    except FileNotFoundError:  # no git
        return
    except subprocess.TimeoutExpired as error:
        raise PortError(f"git status took more than {_GIT_S:.0f} s in {str(folder)!r}; write with --force") from error
    if found.returncode == 0 and found.stdout:
        raise PortError(
            f"{str(folder)!r} is in a git tree with uncommitted changes; commit them, or write with --force"
        )


def _diff(file: Path, source: bytes, ported: Ported) -> list[str]:
    old, new = (text.decode(ported.encoding).splitlines(keepends=True) for text in (source, ported.text))
    lines = difflib.unified_diff(old, new, f"a/{file}", f"b/{file}")
    return [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
