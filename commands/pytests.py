"""Pytest in a process of its own, followed: a command's budget is told which test runs."""

import os
import sys
from collections.abc import Mapping, Sequence

from commands import child
from commands.budget import Budget

_LOOK_S = 0.3
_NAME = 200  # characters


def run(
    budget: Budget,
    suite: str,
    arguments: Sequence[str],
    *,
    seconds: float,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str],
) -> child.Ended:
    """Run `pytest -v`, at most so many seconds; how it ended, with what it printed."""
    command = [sys.executable, "-m", "pytest", "-v", *arguments]
    with budget.doing(suite, "begins"), child.start(command, seconds=seconds, env=env, cwd=cwd) as running:
        doing = ""
        while (ended := running.poll(_LOOK_S)) is None:
            # Pytest writes a test's name when it begins, and the rest of the line when it ends.
            name, _, _ = running.printed().rpartition("\n")[2].partition(" ")
            if "::" in name and name != doing:
                doing = name
                budget.progress(suite, name[:_NAME])
        return ended
