"""A command ends with its budget, or when it is told to, soon, with a summary and without its children."""

import signal
import time

import pytest

from tests.python.commands.conftest import lives, until

WORK = """
    import pathlib, sys, time
    from commands import budget, child
    budget.LOCKS = pathlib.Path("locks")
    budget._EACH_S = 1.2
    with budget.Budget("make it", 75, lambda: ["  kept: one"]) as it:
        it.planned(["a", "b", "c"])
        it.done("a", "well")
        with it.doing("suite", "b"):
            {work}
"""
CHILD = 'child.run(["sh", "-c", "trap : TERM; echo $$ > child; while :; do sleep 1; done"], seconds=it.seconds(600))'
# The main thread does not come back to Python's interpreter.
STUCK = (
    "import ctypes; c = ctypes.CDLL(None); lock = ctypes.create_string_buffer(64); c.pthread_mutex_lock(lock); "
    'pathlib.Path("child").write_text("0\\n"); c.pthread_mutex_lock(lock)'
)


def said(folder):
    return (folder / "said").read_text()


def child_of(folder):
    path = folder / "child"
    assert until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("work", [CHILD, STUCK], ids=["child", "stuck"])
def test_the_end_of_a_budget_or_a_signal(command, tmp_path, number, work):
    process = command(WORK.format(work=work), **({} if number else {"BUDGET": "0.05"}))
    begin = time.monotonic()
    child = child_of(tmp_path)
    if number:
        process.send_signal(number)
    assert process.wait(30) == (128 + number if number else 124), said(tmp_path)
    assert time.monotonic() - begin < 0.05 * 60 + 5
    why = {None: "its budget of 0.05 min is used up", signal.SIGINT: "interrupted", signal.SIGTERM: "told to end"}
    assert f"make it: {why[number]} after 0." in said(tmp_path)
    assert "ran then: suite: b, for " in said(tmp_path)
    assert "done: a (well)\n  not done: b, c\n  kept: one\n" in said(tmp_path)
    if not number:
        assert "make it: at most 0.05 min (BUDGET=minutes changes it)\n" in said(tmp_path)
        assert "of 0.05 min] suite: b, 1 s\n" in said(tmp_path)
    # The child's shell and the supervisor are gone.
    assert not child or until(lambda: not lives(child), 5)


def test_twice_at_once_in_a_checkout(command, tmp_path):
    first = command(WORK.format(work=CHILD))
    child_of(tmp_path)
    second = command(WORK.format(work="pathlib.Path('second').touch()"))
    assert second.wait(30) == 2
    assert (
        f"make it runs in this checkout already, as process {first.pid}; wait for it or end it. Nothing was changed\n"
        in said(tmp_path)
    )
    assert not (tmp_path / "second").exists()
    first.kill()
    first.wait(10)
    third = command(WORK.format(work="pass"))
    assert third.wait(30) == 0  # the lock of a killed command is free
