"""Faults: one-line defects as patches, each with the tests that must find it.

A patch begins with what is wrong, and a line for each test: `Found by: SUITE TEST...`; SUITE is one of tests/suites.py.
"""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
_WHAT = "Fault: "
_FOUND_BY = "Found by: "


class Fault(NamedTuple):
    """One patch; `tests`: pairs of a suite's name and what its pytest is given."""

    path: Path
    what: str
    tests: tuple[tuple[str, tuple[str, ...]], ...]
    files: tuple[str, ...]  # that it changes

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def is_built(self) -> bool:
        """Whether it is in what is compiled."""
        return any(file.startswith("csrc/") for file in self.files)


def read(path: Path) -> Fault:
    """The fault of a patch. Raises ValueError where the head is incomplete."""
    what = ""
    tests = []
    files = []
    for line in path.read_text().splitlines():
        if line.startswith(_WHAT):
            what = line.removeprefix(_WHAT)
        elif line.startswith(_FOUND_BY):
            suite, *arguments = line.removeprefix(_FOUND_BY).split()
            tests.append((suite, tuple(arguments)))
        elif line.startswith("+++ b/"):
            files.append(line.removeprefix("+++ b/"))
    if not (what and files and tests and all(arguments for _, arguments in tests)):
        raise ValueError(f"{path.name}: expected 'Fault: ...', 'Found by: SUITE TEST' and a patch")
    return Fault(path, what, tuple(tests), tuple(files))


def read_all() -> list[Fault]:
    """All faults; those of one file beside each other, what is compiled first."""
    found = [read(path) for path in FOLDER.glob("*.patch")]
    return sorted(found, key=lambda fault: (not fault.is_built, fault.files, fault.name))


def apply(fault: Fault, tree: Path, *options: str) -> str:
    """Change the tree (`--check`: only try, `--reverse`: undo). What git says if the patch does not fit."""
    # The tree may lie in a repository's ignored folder, of which git would not change a file.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    command = ["git", "apply", *options, str(fault.path)]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return done.stderr.strip() or "git apply failed" if done.returncode else ""
