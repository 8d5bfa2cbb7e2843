"""Tries whether tests find faults: `python -m tests.faults.run [NAME ...]` (`make faults`).

Each fault of this folder is put into a copy of the project (build/faults), what it changes is compiled and linked to
the project's own build, which has to be up to date, and the tests that it names are run. Without any fault these tests
have to pass; with it, one of them has to fail. The exit code is 0 if all are found. A patch that does not fit any more
is an error: renew it, or take it out if what it breaks is gone.

What is done is kept (commands/kept.py): a run that was ended goes on from there, as long as the project is the same;
one that came to its end begins anew.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict

from commands import BUILD, ROOT, child, pytests
from commands.budget import Budget
from commands.kept import Kept, KeptError, fingerprint
from tests.faults import core
from tests.faults.faults import Fault, apply, read_all
from tests.processes import HEADERS
from tests.suites import SUITES

MINUTES = 120.0
FOLDER = BUILD / "faults"
TREE = FOLDER / "tree"
TIMEOUT_S = 300.0  # of the tests of one fault: what hangs is found, too
SOUND_S = 300.0  # of a suite's tests without a fault
SOUND_TEST_S = 30.0  # and more for each argument
FAILED = 1  # pytest's exit code where tests ran and failed


def copy_project() -> str:
    """Make the copy what the project is now; its fingerprint."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    names = {name for name in listed.splitlines() if (ROOT / name).is_file()}
    for path in [path for path in TREE.rglob("*") if path.is_file()]:
        name = str(path.relative_to(TREE))
        if name not in names and path.suffix not in core.BUILT and not path.is_relative_to(TREE / "build"):
            path.unlink()
    for name in names:
        source, target = ROOT / name, TREE / name
        if not target.exists() or source.read_bytes() != target.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    core.restore(TREE)
    return fingerprint([*(ROOT / name for name in sorted(names)), *(ROOT / "src" / "openhpu").rglob("*.so")])


class Run:
    """The faults of a run, one after another."""

    def __init__(self, budget: Budget, kept: Kept) -> None:
        self.budget = budget
        self.kept = kept

    def test(self, suite: str, arguments: tuple[str, ...], seconds: float, *more: str) -> child.Ended:
        """How pytest ended, in the copy, as the suite runs it."""
        environment = os.environ | {"OPENHPU_MODULE_LOCKS": "0", "OPENHPU_HEADER_CACHE": HEADERS}
        environment |= SUITES[suite].environment
        sources = [str(TREE / "src"), str(TREE / "lightning-habana" / "src"), environment.get("PYTHONPATH", "")]
        # Recipes that another fault has left on disk would be found again.
        cache = FOLDER / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sources)), "XDG_CACHE_HOME": str(cache)}
        if "PT_HPU_RECIPE_CACHE_CONFIG" in SUITES[suite].environment:
            environment["PT_HPU_RECIPE_CACHE_CONFIG"] = ""
        own = ("-p", "no:cacheprovider", "--tb=line", "-o", "faulthandler_timeout=60")
        # Not cut off by the budget, whose end is no finding.
        return pytests.run(self.budget, suite, [*own, *more, *arguments], seconds=seconds, env=environment, cwd=TREE)

    def sound(self, found: list[Fault]) -> bool:
        """Whether the tests pass without a fault: one that always fails finds nothing."""
        wanted: dict[str, dict[str, None]] = defaultdict(dict)
        for fault in found:
            for suite, arguments in fault.tests:
                wanted[suite] |= dict.fromkeys(arguments)
        good = True
        for suite, each in wanted.items():
            arguments = tuple(argument for argument in each if f"{suite} {argument}" not in self.kept.results)
            if not arguments:
                continue
            ended = self.test(suite, arguments, SOUND_S + SOUND_TEST_S * len(arguments))
            last = ended.output.strip().splitlines()[-1:]
            self.budget.say(f"without a fault, {suite}: {' '.join(last)} ({ended.how}, {ended.seconds:.0f} s)")
            if ended.code != 0:
                self.budget.say(ended.output[-6000:])
                good = False
                continue
            for argument in arguments:
                self.kept.add(f"{suite} {argument}", "passes")
        return good

    def is_found(self, fault: Fault) -> bool:
        """Puts the fault in, builds, tests, takes it out, and says what came of it; kept if it is found."""
        if refusal := apply(fault, TREE):
            return self._say(fault, f"ERROR, the patch does not fit: {refusal}")
        try:
            started = time.monotonic()
            with self.budget.doing(fault.name, "is built"):
                if fault.is_built and (said := core.build(TREE, fault.files, FOLDER / "objects")):
                    return self._say(fault, f"ERROR, it can't be compiled\n{said}")
            built = time.monotonic()
            for suite, arguments in fault.tests:
                ended = self.test(suite, arguments, TIMEOUT_S, "-x")
                if ended.timed_out or ended.code == FAILED or ended.code < 0 or ended.code > 128:
                    how = "hangs"
                    if not ended.timed_out:
                        how = "fails" if ended.code == FAILED else f"ends: {ended.how}"
                    failed = re.findall(r"^(?:FAILED|ERROR) (?:\S*::)?(\S+)", ended.output, re.MULTILINE)
                    said = (
                        f"found in {time.monotonic() - built:.0f} s (built in {built - started:.0f} s): "
                        f"{suite} {failed[0] if failed else arguments[0]} {how}"
                    )
                    self.kept.add(fault.name, said)
                    self._say(fault, said)
                    return True
                if ended.code != 0:
                    return self._say(fault, f"ERROR, pytest: {ended.how}\n{ended.output[-2000:]}")
            tests = ", ".join(" ".join((suite, *each)) for suite, each in fault.tests)
            return self._say(fault, f"NOT FOUND by {tests}: {fault.what}")
        finally:
            apply(fault, TREE, "--reverse")
            if fault.is_built:
                core.restore(TREE)

    def _say(self, fault: Fault, said: str) -> bool:
        self.budget.say(f"{fault.name}: {said}")
        return False

    def all(self, wanted: list[Fault]) -> int:
        """Try all; the exit status."""
        self.budget.planned(["the tests without a fault", *(fault.name for fault in wanted)])
        started = time.monotonic()
        if not self.sound(wanted):
            return 1
        self.budget.done("the tests without a fault", "pass")
        missed = []
        for fault in wanted:
            if fault.name in self.kept.results:
                self._say(fault, f"{self.kept.results[fault.name]}, in an earlier run")
                self.budget.done(fault.name, "found")
                continue
            found = self.is_found(fault)
            self.budget.done(fault.name, "found" if found else "NOT FOUND")
            if not found:
                missed.append(fault.name)
        print(f"{len(wanted) - len(missed)} of {len(wanted)} faults found in {time.monotonic() - started:.0f} s")
        if missed:
            print(f"not found: {', '.join(missed)}")
        else:
            self.kept.forget()
        return 1 if missed else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of faults; without any, all are tried")
    parser.add_argument("--list", action="store_true", help="print all faults, and try none")
    options = parser.parse_args(arguments)
    found = read_all()
    if options.list:
        for fault in found:
            print(f"{fault.name}: {fault.what} ({', '.join(suite for suite, _ in fault.tests)})")
        return 0
    if unknown := set(options.names) - {fault.name for fault in found}:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; --list prints all")
    if options.names:
        found = [fault for fault in found if fault.name in options.names]
    with Budget("make faults", MINUTES) as budget:
        try:
            with budget.doing("faults", "copies the project"):
                TREE.mkdir(parents=True, exist_ok=True)
                mark = copy_project()
            return Run(budget, Kept("faults", mark)).all(found)
        except KeptError as error:
            print(error, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
