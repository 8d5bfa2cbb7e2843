"""`python -m ecosystem LANE [PYTEST ARGUMENT ...]`: runs a lane and writes docs/ecosystem/LANE.md.

`--times` measures the steps that the lane is about instead, and writes them into the same page; `--quick` shows that
this runs, and writes nothing. `--install` only brings what the lane needs. `python -m ecosystem lock LANE` finds the
versions and hashes of a lane's packages anew. What is installed and unpacked lies under build/ecosystem/LANE, beside
this environment, which stays as it is. `python -m ecosystem pages` writes docs/ecosystem.md from the pages.

A lane has a budget; the runs of it that are done are kept (commands/kept.py), so that it goes on from there when it is
run again with the same code. One that came to its end begins anew.
"""

import argparse
import datetime
import os
import sys
from pathlib import Path

from commands import BUILD, ROOT, checkout, child, pytests
from commands.budget import Budget
from commands.kept import Kept, KeptError, fingerprint
from ecosystem import listed, page
from ecosystem.install import ENVIRONMENT, TORCHVISION, LackingError, commit_in, install, lock
from ecosystem.lanes import LANES, LISTED, Lane, Run
from tests.vision import empty_libraries

PAGES = ROOT / "docs" / "ecosystem"
MINUTES = 20.0
_MOST_S = 86_400.0  # of a process, whose limit is the budget


def environment_of(lane: Lane, folder: Path, site: Path | None) -> dict[str, str]:
    """The environment of a lane's processes."""
    beside = [ENVIRONMENT / name for name in lane.beside]
    paths = [str(path) for path in (site, lane.torchvision and TORCHVISION, *beside, ROOT, ROOT / "src") if path]
    programs = folder / "programs" if lane.programs else None
    commands = [*(str(place / "bin") for place in (programs, site, *beside) if place), str(Path(sys.executable).parent)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OPENHPU_MODULE_LOCKS": "0",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hub"),
        "PATH": os.pathsep.join([*commands, os.environ["PATH"]]),
        "CI": "true",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
        **({} if lane.folder else {"PYTHONWARNINGS": "ignore"}),
    }
    if lane.torchvision:
        libraries = folder.parent / "empty-libraries"
        libraries.mkdir(exist_ok=True)
        empty_libraries(TORCHVISION / "torchvision" / "_C.so", libraries)
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(
            part for part in (str(libraries), os.environ.get("LD_LIBRARY_PATH")) if part
        )
    return environment


def folder_of(name: str) -> Path:
    """Where what a lane needs is installed and unpacked."""
    folder = BUILD / "ecosystem" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Tests:
    """The tests of one lane."""

    def __init__(self, budget: Budget, name: str, arguments: list[str]) -> None:
        self.budget = budget
        self.lane = LANES[name]
        self.folder = folder_of(name)
        self.arguments = arguments
        self.site, self.tests = install(name, self.lane, self.folder)
        if self.lane.listed:
            self.lane = self.lane._replace(runs=listed.runs(self.tests, self.lane.listed, LISTED))
        self.environment = environment_of(self.lane, self.folder, self.site)

    def run(self, number: int, one: Run) -> list[page.Case]:
        """One pytest process."""
        self.budget.say(f"=== {one.title}")
        report = self.folder / f"report{number}.xml"
        report.unlink(missing_ok=True)
        left_out = [f"not {part}" for part in self.lane.left_out]
        chosen = " and ".join([*([f"({one.only})"] if one.only else []), *left_out])
        files = () if any(".py" in argument for argument in self.arguments) else one.tests
        cache = self.folder / f"cache{number}"
        configuration = ROOT / "pyproject.toml" if self.lane.folder else os.devnull
        if self.lane.inside:
            configuration = self.tests / "pytest.ini"
        command = [
            "-c",
            str(configuration),
            "--rootdir",
            str(self.tests),
            "--tb=short",
            "-o",
            f"cache_dir={cache}",
            "-o",
            "faulthandler_timeout=300",
            f"--junit-xml={report}",
            *(["-k", chosen] if chosen else []),
            *files,
            *self.arguments,
        ]
        ended = pytests.run(
            self.budget, one.title, command, seconds=_MOST_S, cwd=self.tests, env=self.environment | one.environment
        )
        self.budget.say(ended.tail)
        if report.exists():
            return page.cases(report)
        return [page.Case("the whole run", "failed", f"pytest: {ended.how}, without a report", ended.seconds)]


def run(budget: Budget, name: str, arguments: list[str], only: str = "") -> int:
    """Run the lane's tests and write its page; 0 when nothing failed that is not explained."""
    with budget.doing(name, "is installed"):
        tests = Tests(budget, name, arguments)
    chosen = [(number, one) for number, one in enumerate(tests.lane.runs) if only in ("", one.title)]
    if not chosen:
        print(f"the lane {name} has no run {only!r}; it has: {', '.join(one.title for one in tests.lane.runs)}")
        return 2
    results = {}
    whole = not arguments and not only
    code = [ROOT / folder for folder in ("ecosystem", "src", "lightning-habana/src", "tests/lightning")]
    kept = Kept(f"lane-{name}", fingerprint(code, lane=tests.lane))
    budget.planned(one.title for _, one in chosen)
    for number, one in chosen:
        when = "" if arguments else commit_and_date()  # with arguments no page is written
        if whole and one.title in kept.results:
            results[one.title] = [page.Case(*case) for case in kept.results[one.title]]
            budget.done(one.title, "in an earlier run")
            continue
        results[one.title] = tests.run(number, one)
        budget.done(one.title, f"{len(results[one.title])} tests")
        if whole:
            kept.add(one.title, results[one.title])
        if not arguments:  # each run is kept, so that one can be made again without the others
            page.keep(tests.folder, one.title, when, results[one.title])
            path = PAGES / f"{name}.md"
            before = path.read_text() if path.exists() else ""
            text = page.tests_text(tests.lane, versions(tests.lane, tests.site), tests.folder, before)
            page.write(path, text, page.TESTS)
    if not arguments:
        page.write_summary(PAGES)
    if whole:
        kept.forget()
    left = page.unexplained(tests.lane, [case for found in results.values() for case in found])
    print("\n".join(f"not explained: {case.name}: {case.reason[:200]}" for case in left))
    empty = [title for title, found in results.items() if not found]
    print("\n".join(f"no test ran: {title}" for title in empty))
    return 1 if left or empty else 0


def times(budget: Budget, name: str, quick: bool) -> int:
    """Measure the lane's steps on both devices, in lazy mode; write them into its page."""
    lane = LANES[name]
    folder = folder_of(name)
    if not lane.times:
        print(f"the lane {name} has no times; these have: {', '.join(n for n, one in LANES.items() if one.times)}")
        return 2
    site, _ = install(name, lane, folder)
    environment = environment_of(lane, folder, site) | {"PT_HPU_LAZY_MODE": "1"}
    command = [sys.executable, "-m", lane.times, *(["--quick"] if quick else [])]
    with budget.doing(name, "times of steps"):
        ended = child.run(command, seconds=_MOST_S, cwd=ROOT, env=environment, split=True)
    print(ended.output)
    if ended.code:
        print(f"{ended.how}\n{ended.tail}", file=sys.stderr)
    elif not quick:
        text = f"{page.TIMES}\n\nCommit {commit_and_date()}; {versions(lane, site)}.\n\n{ended.output}"
        page.write(PAGES / f"{name}.md", text, page.TIMES)
        page.write_summary(PAGES)
    return 1 if ended.code else 0


def commit_and_date() -> str:
    """This checkout's commit, and today. Raises LackingError where its files differ from the commit: a page says which
    code it is about."""
    if reason := checkout.why_not():
        raise LackingError(f"the page cannot name a commit: {reason}")
    return f"{checkout.commit()}, {datetime.date.today().isoformat()}"


def versions(lane: Lane, site: Path | None) -> str:
    """The packages that the lane is about, and the commit of its checkout."""
    found = [package for package in ("torch==2.13.0", *lane.packages) if "==" in package]
    if lane.checkout and site:
        name, commit = commit_in(lane.checkout, site)
        found.append(f"{name} at commit {commit[:10]}")
    return ", ".join(found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ecosystem", description=__doc__)
    parser.add_argument("what", choices=[*LANES, "lock", "pages"])
    parser.add_argument("--times", action="store_true", help="measure the lane's steps instead of running its tests")
    parser.add_argument("--quick", action="store_true", help="with --times: few rounds, and nothing is written")
    parser.add_argument("--install", action="store_true", help="only bring what the lane needs")
    parser.add_argument(
        "--run", metavar="TITLE", default="", help="only this run of the lane; the others on its page stay"
    )
    options, rest = parser.parse_known_args()
    if options.what == "pages":
        page.write_summary(PAGES)
        return 0
    with Budget(f"make ecosystem SUITE={options.what}", MINUTES) as budget:
        try:
            if options.what == "lock":
                for name in rest or [name for name, lane in LANES.items() if lane.packages]:
                    with budget.doing("lock", name):
                        lock(name)
                return 0
            if options.install:
                with budget.doing(options.what, "is installed"):
                    install(options.what, LANES[options.what], folder_of(options.what))
                return 0
            if options.times:
                return times(budget, options.what, options.quick)
            return run(budget, options.what, rest, options.run)
        except (LackingError, KeptError) as error:
            print(f"ecosystem: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
