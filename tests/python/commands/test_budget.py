"""A command ends with its budget, or when it is told to, soon, with a summary and without its children."""

import signal
import time

import pytest

from tests.python.commands.conftest import until

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


def assert_ends(process, code, folder, why):
    begin = time.monotonic()
    assert process.wait(30) == code, said(folder)
    took = time.monotonic() - begin
    assert f"make it: {why} after 0." in said(folder)
    assert "ran then: suite: b, for " in said(folder)
    assert "done: a (well)\n  not done: b, c\n  kept: one\n" in said(folder)
    return took


@pytest.mark.parametrize("work", [CHILD, STUCK], ids=["child", "stuck"])
def test_the_end_of_a_budget(command, tmp_path, work):
    process = command(WORK.format(work=work), BUDGET="0.05")
    begin = time.monotonic()
    child_of(tmp_path)
    assert_ends(process, 124, tmp_path, "its budget of 0.05 min is used up")
    assert time.monotonic() - begin < 0.05 * 60 + 5
    assert "make it: at most 0.05 min (BUDGET=minutes changes it)\n" in said(tmp_path)
    assert "of 0.05 min] suite: b, 1 s\n" in said(tmp_path)
    no_process_of(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("work", [CHILD, STUCK], ids=["child", "stuck"])
def test_a_signal(command, tmp_path, number, work):
    process = command(WORK.format(work=work))
    child_of(tmp_path)
    process.send_signal(number)
    why = {signal.SIGINT: "interrupted", signal.SIGTERM: "told to end"}[number]
    assert assert_ends(process, 128 + number, tmp_path, why) < 5
    no_process_of(tmp_path)


def no_process_of(folder):
    """The child's shell and the supervisor are gone."""
    from tests.python.commands.conftest import lives

    process = child_of(folder)
    assert not process or until(lambda: not lives(process), 5)


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
