"""Of which code numbers and pages are: this checkout's commit, its changes, and what is older than the code.

`python -m commands.checkout` lists the sections of benchmarks/RESULTS.md and the runs of docs/ecosystem that were made
before the last change of csrc or src.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from commands import ROOT

# What a run writes itself: differences there do not change what is measured.
WRITTEN = ("benchmarks/RESULTS.md", "docs/ecosystem")
CODE = ("csrc", "src")


def commit(root: Path = ROOT) -> str:
    """The commit, with `+` where files differ from it; "unknown" outside of a repository."""
    found = _git(root, "rev-parse", "--short=12", "HEAD")
    return (found + "+" * bool(changed(root))) if found else "unknown"


def changed(root: Path = ROOT) -> list[str]:
    """Files that differ from the commit, but for what runs write."""
    return [line[3:] for line in _git(root, "status", "--porcelain").splitlines() if not line[3:].startswith(WRITTEN)]


def why_not(root: Path = ROOT) -> str:
    """What stands against naming a commit beside a result; empty where nothing does."""
    if files := changed(root):
        return f"{len(files)} files differ from the commit ({', '.join(files[:3])} ...): commit them, or put them aside"
    if not _git(root, "rev-parse", "HEAD"):
        return f"{root} is no git repository, so that nobody could tell which code was measured"
    return ""


def older(root: Path = ROOT) -> Iterator[str]:
    """A line for each result that is older than the code: where it stands, and how many commits changed the code since.

    A commit that is not in the history, or that had changes beside it, counts as older.
    """
    results = (root / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    for heading, when in re.findall(r"^## (.+)\n\n.*?; commit: ([^;\s]+);", results, re.MULTILINE):
        yield from _older(root, f"benchmarks/RESULTS.md, {heading}", when)
    for page in sorted((root / "docs" / "ecosystem").glob("*.md")):
        runs = r"^\| (.+?) \|.*\| (\S+), \d{4}-\d\d-\d\d[^|]* \|$"
        for title, when in re.findall(runs, page.read_text(encoding="utf-8"), re.MULTILINE):
            yield from _older(root, f"docs/ecosystem/{page.name}, {title}", when)


def _older(root: Path, where: str, when: str) -> Iterator[str]:
    if when.endswith(("+", "-dirty")):
        yield f"{where}: {when}, whose tree had changes"
    elif not (since := _git(root, "rev-list", "--count", f"{when}..HEAD", "--", *CODE)):
        yield f"{where}: {when}, which is not in the history"
    elif since != "0":
        yield f"{where}: {when}, {since} commits changed {' or '.join(CODE)} since"


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.rstrip() if done.returncode == 0 else ""


if __name__ == "__main__":
    print("\n".join(older()) or "Every result is of today's code.")
