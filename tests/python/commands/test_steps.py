"""Several commands under one budget, of which each ends by its own before that of all."""

import sys
import time


def steps(command, folder, *commands, **environment):
    return command(
        f"import sys\nfrom commands.steps import main\nsys.exit(main('make it', '75', *{commands!r}))",
        COMMANDS_BUILD=str(folder), **environment,
    )  # fmt: skip


def test_the_first_that_fails_ends_it(command, tmp_path):
    process = steps(command, tmp_path, "true", "false", "echo never")
    assert process.wait(60) == 1
    said = (tmp_path / "said").read_text()
    assert "make it: false: exit status 1 after" in said
    assert "  done: true, false (exit status 1)\n  not done: echo never\n" in said


INNER = """
import pathlib, sys, time
from commands import child
from commands.budget import Budget
with Budget("inner", 60) as budget, budget.doing("suite", "test"):
    pathlib.Path("begun").touch()
    child.run(["sleep", "600"], seconds=budget.seconds())
"""


def test_the_inner_one_ends_first_and_says_what_it_did(command, tmp_path):
    (tmp_path / "inner.py").write_text(INNER)
    process = steps(command, tmp_path, "true", f"{sys.executable} inner.py", "echo never", BUDGET="0.15")
    begin = time.monotonic()
    assert process.wait(60) == 124
    assert time.monotonic() - begin < 0.15 * 60 + 5
    said = (tmp_path / "said").read_text()
    assert "inner: its budget of 0.0" in said and "ran then: suite: test" in said
    assert "inner.py: its budget is used up after" in said and "not done: echo never" in said
