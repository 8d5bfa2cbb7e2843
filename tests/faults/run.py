"""Tries whether tests find faults: `python -m tests.faults.run [NAME ...]` (`make faults`).

Each fault of this folder is put into a copy of the project (build/faults), what it changes is compiled and linked to
the project's own build, which has to be up to date, and the tests that it names are run. Without any fault these tests
have to pass; with it, one of them has to fail. The exit code is 0 if all are found. A patch that does not fit any more
is an error: renew it, or take it out if what it breaks is gone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict

from tests.faults import core
from tests.faults.faults import ROOT, Fault, apply, read_all
from tests.processes import HEADERS
from tests.run import SUITES

BUILD = ROOT / "build" / "faults"
TREE = BUILD / "tree"
TIMEOUT_S = 300  # of the tests of one fault: what hangs is found, too
FAILED = 1  # pytest's exit code where tests ran and failed


def copy_project() -> None:
    """Make the copy what the project is now."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    names = {name for name in listed.splitlines() if (ROOT / name).is_file()}
    for path in [path for path in TREE.rglob("*") if path.is_file()]:
        name = str(path.relative_to(TREE))
        if name not in names and path.suffix != ".so":
            path.unlink()
    for name in names:
        source, target = ROOT / name, TREE / name
        if not target.exists() or source.read_bytes() != target.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    core.restore(TREE)


def test(suite: str, arguments: tuple[str, ...], until_one_fails: bool = True) -> tuple[int | None, str]:
    """Pytest's exit code (None: it did not end) and output, in the copy, as the suite runs it."""
    environment = {
        **os.environ,
        "OPENHPU_MODULE_LOCKS": "0",
        "OPENHPU_HEADER_CACHE": HEADERS,
        **SUITES[suite].environment,
    }
    sources = [str(TREE / "src"), str(TREE / "lightning-habana" / "src"), environment.get("PYTHONPATH", "")]
    # Recipes that another fault has left on disk would be found again.
    cache = BUILD / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sources)), "XDG_CACHE_HOME": str(cache)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=line",
        "-o",
        "faulthandler_timeout=60",
    ]
    command += ["-x"] * until_one_fails + list(arguments)
    process = subprocess.Popen(
        command, cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S if until_one_fails else None)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, _ = process.communicate()
        return None, output
    return process.returncode, output


def sound(faults: list[Fault]) -> bool:
    """Whether the tests pass without a fault: one that always fails finds nothing."""
    wanted: dict[str, dict[str, None]] = defaultdict(dict)
    for fault in faults:
        for suite, arguments in fault.tests:
            wanted[suite] |= dict.fromkeys(arguments)
    good = True
    for suite, arguments in wanted.items():
        started = time.monotonic()
        code, output = test(suite, tuple(arguments), until_one_fails=False)
        print(
            f"without a fault, {suite}: {output.strip().splitlines()[-1]} ({time.monotonic() - started:.0f} s)",
            flush=True,
        )
        if code != 0:
            print(output[-6000:])
            good = False
    return good


def is_found(fault: Fault) -> bool:
    """Puts the fault in, builds, tests, takes it out, and says what came of it."""
    if refusal := apply(fault, TREE):
        print(f"{fault.name}: ERROR, the patch does not fit: {refusal}", flush=True)
        return False
    try:
        started = time.monotonic()
        if fault.is_built and (said := core.build(TREE, fault.files, BUILD / "objects")):
            print(f"{fault.name}: ERROR, it can't be compiled\n{said}", flush=True)
            return False
        built = time.monotonic()
        for suite, arguments in fault.tests:
            code, output = test(suite, arguments)
            if code is None or code == FAILED or code < 0 or code > 128:
                how = "hangs" if code is None else "fails" if code == FAILED else f"ends the process ({code})"
                failed = [
                    line.split()[1].split("::")[-1]
                    for line in output.splitlines()
                    if line.startswith(("FAILED ", "ERROR "))
                ]
                print(
                    f"{fault.name}: found in {time.monotonic() - built:.0f} s (built in {built - started:.0f} s): "
                    f"{suite} {failed[0] if failed else arguments[0]} {how}",
                    flush=True,
                )
                return True
            if code != 0:
                print(f"{fault.name}: ERROR, pytest ended with {code}\n{output[-2000:]}", flush=True)
                return False
        print(
            f"{fault.name}: NOT FOUND by {', '.join(' '.join((s, *a)) for s, a in fault.tests)}: {fault.what}",
            flush=True,
        )
        return False
    finally:
        apply(fault, TREE, "--reverse")
        if fault.is_built:
            core.restore(TREE)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of faults; without any, all are tried")
    parser.add_argument("--list", action="store_true", help="print all faults, and try none")
    options = parser.parse_args(arguments)
    faults = read_all()
    if options.list:
        for fault in faults:
            print(f"{fault.name}: {fault.what} ({', '.join(suite for suite, _ in fault.tests)})")
        return 0
    if unknown := set(options.names) - {fault.name for fault in faults}:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; --list prints all")
    if options.names:
        faults = [fault for fault in faults if fault.name in options.names]
    started = time.monotonic()
    TREE.mkdir(parents=True, exist_ok=True)
    copy_project()
    if not sound(faults):
        return 1
    found = [fault.name for fault in faults if is_found(fault)]
    missed = [fault.name for fault in faults if fault.name not in found]
    print(f"{len(found)} of {len(faults)} faults found in {time.monotonic() - started:.0f} s")
    if missed:
        print(f"not found: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
