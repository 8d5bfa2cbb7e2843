"""A child ends at its deadline, with its parent, or when it is stopped, and so do its descendants, whatever they do."""

import os
import signal
import sys

import pytest

from commands import child
from tests.python.commands.conftest import lives, until

# Writes the numbers of its processes, of which one is in another session, and none of which minds SIGTERM.
STUBBORN = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) < 3:
    subprocess.Popen([sys.executable, __file__, sys.argv[1], "grandchild"], start_new_session=True)
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.01)
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def stubborn(tmp_path):
    """The command, and the numbers of its two processes once both run."""
    script, numbers = tmp_path / "stubborn.py", tmp_path / "numbers"
    script.write_text(STUBBORN)

    def both():
        until(lambda: numbers.exists() and numbers.read_text().count("\n") == 2)
        return [int(line) for line in numbers.read_text().split()]

    return [sys.executable, str(script), str(numbers)], both


def test_the_deadline_kills_what_ignores_sigterm_and_what_is_in_another_session(stubborn):
    command, both = stubborn
    with child.start(command, seconds=4) as started:
        processes = both()
        ended = started.wait()
    assert ended.timed_out
    assert ended.code == -signal.SIGKILL
    assert ended.how.startswith("not finished after")
    assert 4 <= ended.seconds < 4 + child.GRACE_S + 3
    assert not any(map(lives, processes)), processes
    assert len(ended.killed) == 2
    assert all("stubborn.py" in name for name in ended.killed)
    assert "ready" in ended.output


def test_the_end_of_this_process_ends_it(stubborn, command):
    """By SIGKILL, which no handler sees."""
    words, both = stubborn
    runner = command(f"from commands import child\nchild.run({words!r}, seconds=600)")
    processes = both()
    assert len(processes) == 2
    assert all(map(lives, processes))
    runner.kill()
    assert until(lambda: not any(map(lives, processes)), child.GRACE_S + 3)


def test_the_end_of_the_supervisor_ends_the_command(stubborn):
    command, both = stubborn
    with child.start(command, seconds=600) as started:
        both()
        os.kill(started._process.pid, signal.SIGKILL)
        ended = started.wait(20)
        assert until(lambda: not lives(started.pid))
    assert ended.code == -signal.SIGKILL
    for process in both():
        if lives(process):
            os.kill(process, signal.SIGKILL)  # with its supervisor nobody knows the one in another session any more


def test_several_at_once_of_which_one_fails():
    codes = ("pass", "raise SystemExit('why')")
    good, bad = child.run_at_once({"argv": [sys.executable, "-c", code], "seconds": 60} for code in codes)
    assert good.checked("it") is good
    with pytest.raises(child.ChildError, match=r"^it: exit status 1\nwhy$"):
        bad.checked("it")


def test_after_stop_all_nothing_is_started(command, tmp_path):
    runner = command(
        """
        import threading
        from commands import child
        running = child.start(["sleep", "600"], seconds=600)
        child.stop_all()
        print(running.wait(1).how)
        try:
            child.run(["true"], seconds=5)
        except child.ChildError as error:
            print(error)
        running.__exit__()
        """
    )
    assert runner.wait(60) == 0
    assert "stopped after 0 s\nno process is started any more" in (tmp_path / "said").read_text()
