"""The tests that a workflow of GitHub chooses: its variable TEST_LIST has an expression of pytest in each line."""

import re
from pathlib import Path

from ecosystem.install import LackingError
from ecosystem.lanes import Run


def runs(tests: Path, workflow: str, environment: dict[str, str]) -> tuple[Run, ...]:
    """A run for each folder that has files of the list. Raises LackingError where a file is missing."""
    path = (tests / workflow).resolve()
    chosen: dict[str, dict[str, None]] = {}  # of a folder, its files
    expressions: dict[str, list[str]] = {}
    for expression in _lines(path):
        for name in re.findall(r"test_\w+\.py", expression):
            files = sorted(tests.rglob(f"*{name}"))  # pytest looks for a part of a name
            if not files:
                raise LackingError(f"{path} lists {name}, and {tests} has no such file; give a whole checkout")
            for file in files:
                folder = str(file.parent.relative_to(tests))
                chosen.setdefault(folder, {})[str(file.relative_to(tests))] = None
                if expression not in expressions.setdefault(folder, []):
                    expressions[folder].append(expression)
    return tuple(
        Run(folder, tuple(files), environment, " or ".join(expressions[folder]))
        for folder, files in sorted(chosen.items())
    )


def _lines(path: Path) -> list[str]:
    """The lines of the list, which end where the indentation does."""
    text = path.read_text() if path.exists() else ""
    found = re.search(r"^( *)TEST_LIST: \|\n((?:\1 +\S.*\n)+)", text, re.MULTILINE)
    if not found:
        raise LackingError(f"{path} has no TEST_LIST of expressions of pytest; name a checkout that has it")
    return [line.strip() for line in found[2].splitlines()]
