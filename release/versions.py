"""`make versions`: builds the project for each supported PyTorch, in an environment of its own, and runs tests there.

It takes at most 60 minutes a version (BUDGET=minutes changes the whole), and goes on where it stopped as long as
the sources stay the same. `python -m release.versions 2.15.0` runs one version. docs/versions.md gets the results.
"""

import argparse
import re
import time
from pathlib import Path
from typing import Any

from commands import checkout, child
from commands.budget import Budget
from commands.kept import Kept, fingerprint
from release import ROOT, environments
from release.environments import VERSIONS, StepError, Version

MINUTES = 60  # of each version
PAGE = ROOT / "docs" / "versions.md"
MARK = "<!-- What `make versions` found; it writes anew all that follows. -->\n"
SOURCES = [ROOT / name for name in ("csrc", "src", "tests", "CMakeLists.txt", "setup.py", "pyproject.toml")]
# What a new PyTorch breaks first comes first.
SUITES = ("compiled", "compiler", "python", "hpu", "lazy")
STEPS = {
    **{suite: ["-m", "tests.run", "--only", suite] for suite in SUITES},
    "conformance, a fifth": ["-m", "tests.conformance.run", "--mode", "eager", "--shard", "1/5"],
    "C++ tests": ["tests/cpp/run.py"],  # of csrc/device, which includes nothing of PyTorch
}
_TOTAL = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped\s*$")
_CTEST = re.compile(r"tests passed(?:, (\d+) tests? failed)? out of (\d+)")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (?:[\w-]+: )?(\S+)", re.MULTILINE)  # with the suite's name or without
_MOST_FAILED = 40  # names that are kept


def outcome(step: str, output: str, code: int) -> dict[str, Any]:
    """Totals of a step, and the names of tests that failed."""
    if step == "C++ tests":
        found = [(int(all), int(failed or 0)) for failed, all in _CTEST.findall(output)]
        if not found and not code:
            raise StepError(f"{step}: its output has no total")
        passed, failed = sum(all - failed for all, failed in found), sum(failed for _, failed in found)
        return {"passed": passed, "failed": failed or int(code != 0), "skipped": 0, "names": []}
    total = _TOTAL.search(output.rstrip())
    if not total:
        raise StepError(f"{step}: its output has no total")
    passed, failed, skipped = map(int, total.groups())
    names = sorted(set(_FAILED.findall(output)))[:_MOST_FAILED]
    return {"passed": passed, "failed": failed, "skipped": skipped, "names": names}


def kept(version: Version) -> Kept:
    """The results of a version with the sources as they are. What a build writes among them is none of them."""
    sources = [
        path
        for each in SOURCES
        for path in sorted(each.rglob("*") if each.is_dir() else [each])
        if path.suffix not in (".so", ".o", ".pyc") and path.is_file()
    ]
    return Kept(f"versions-{version.name}", fingerprint(sources, torch=version.torch))


def run(version: Version, budget: Budget) -> None:
    """All steps of a version that were not done, in its time. What fails is said, and the others go on."""
    end = time.monotonic() + MINUTES * 60
    results = kept(version)
    for step in ("build", *STEPS):
        name = f"{version.name}: {step}"
        # What is built may be gone, or of older sources; ninja knows.
        if step != "build" and "problem" not in results.results.get(step, {"problem": ""}):
            budget.done(name, "done before")
            continue
        left = budget.seconds(end - time.monotonic())
        if left < 30:
            return
        with budget.doing(version.name, step):
            found = one(version, step, left)
        results.add(step, found)
        budget.done(name, said(found))
        budget.say(f"{name}: {said(found)}")
        if step == "build" and "problem" in found:
            return


def one(version: Version, step: str, seconds: float) -> dict[str, Any]:
    """The outcome of a step, or under `problem` why there is none."""
    started = time.monotonic()
    try:
        if step == "build":
            environments.make(version, seconds)
            environments.build(version, seconds)
            found: dict[str, Any] = {}
        else:
            log = version.folder / f"{re.sub('[^a-z]+', '-', step.lower())}.txt"
            argv = [str(version.bin / "python"), *STEPS[step]]
            ended = child.run(argv, seconds=seconds, log=log, env=environments.variables(version), cwd=ROOT)
            found = {"problem": ended.how} if ended.timed_out else outcome(step, ended.output, ended.code)
    except StepError as error:
        found = {"problem": str(error)}
    return {**found, "seconds": round(time.monotonic() - started)}


def said(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not run"
    if "problem" in found:
        return str(found["problem"]).splitlines()[0]
    if "passed" not in found:
        return f"{found['seconds']} s"
    return f"{found['passed']} passed, {found['failed']} failed, {found['skipped']} skipped"


def page() -> str:
    """The results of every version that was run with the sources as they are."""
    every = {version: kept(version).results for version in VERSIONS}
    lines = [
        f"Of commit {checkout.commit()}:",
        "",
        "| | " + " | ".join(f"PyTorch {version.torch}, Python {version.python}" for version in VERSIONS) + " |",
        "| --- " * (len(every) + 1) + "|",
    ]
    for step in STEPS:
        lines.append(f"| {step} | " + " | ".join(said(results.get(step)) for results in every.values()) + " |")
    for version, results in every.items():
        names = [f"- `{name}`" for step in STEPS for name in (results.get(step) or {}).get("names", [])]
        lines += ["", f"Failed with PyTorch {version.torch}:", "", *names] if names else []
    return "\n".join(lines) + "\n"


def write_page(path: Path = PAGE) -> None:
    head, _, _ = path.read_text().partition(MARK)
    path.write_text(f"{head}{MARK}\n{page()}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m release.versions", description=__doc__)
    parser.add_argument("torch", nargs="*", choices=[[], *(version.torch for version in VERSIONS)], help="releases")
    parser.add_argument("--page", action="store_true", help="only write docs/versions.md from what is kept")
    given = parser.parse_args()
    chosen = [version for version in VERSIONS if not given.torch or version.torch in given.torch]
    if not given.page:
        with Budget("make versions", MINUTES * len(chosen)) as budget:
            budget.planned(f"{version.name}: {step}" for version in chosen for step in ("build", *STEPS))
            for version in chosen:
                run(version, budget)
    write_page()


if __name__ == "__main__":
    main()
