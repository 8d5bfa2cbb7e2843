"""`openhpu run` with scripts that end in every way."""

import json
import os
import signal
import sys
import time

import pytest

from openhpu import cli
from openhpu.observe.insight import launch
from tests.python.openhpu.observe.difference_examples import EXAMPLES

WORK = """\
import torch
x = torch.ones(4).to("hpu")
print((x + 1).sum().item())
"""


def test_arguments_output_and_exit_code_are_the_scripts(openhpu_run):
    code = WORK + "import sys; print(sys.argv, __name__); sys.exit(7)\n"
    run = openhpu_run(code, "--json", script=("script.py", "--report", "-m", "x"))
    assert run.code == 7
    assert run.out.splitlines()[:2] == ["8.0", "['script.py', '--report', '-m', 'x'] __main__"]
    assert run.seen["exit_code"] == 7
    (read,) = run.seen["blocking_reads"]
    assert read["line"] == 3
    assert read["wait_ns"] > 0


def test_a_module(openhpu_run, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(WORK + "import sys; print(sys.argv[1:])")
    run = openhpu_run("", "--json", script=("-m", "package", "--steps", "3"))
    assert run.code == 0, run.err
    assert run.out.splitlines()[1] == "['--steps', '3']"
    assert run.seen["blocking_reads"][0]["count"] == 1
    assert run.seen["process"]["command"] == "package/__main__.py --steps 3"


@pytest.mark.parametrize(
    ("ending", "code", "complete"),
    [
        ("raise ValueError('planted')", 1, True),
        ("import os; os._exit(5)", 5, True),
        ("import os, signal; time.sleep(1.5); os.kill(os.getpid(), signal.SIGKILL)", 128 + 9, False),
        ("import os; time.sleep(1.5); os.abort()", 128 + 6, False),
    ],
)
def test_what_was_seen_is_told_however_the_script_ends(openhpu_run, ending, code, complete):
    run = openhpu_run("import time\n" + WORK + ending + "\n", "--json")
    assert run.code == code
    assert run.seen["complete"] is complete
    assert [(r["line"], r["count"]) for r in run.seen["blocking_reads"]] == [(4, 1)]
    assert f"exit code {code}" in run.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_script(tmp_path, begin, number):
    process = begin(WORK + "import pathlib, time\npathlib.Path('ready').touch()\ntime.sleep(60)\n", "--json")
    while not (tmp_path / "ready").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    # No handler runs on SIGTERM: what a write before it held is what is left.
    while number == signal.SIGTERM and not any(
        json.loads(path.read_text())["blocking_reads"] for path in tmp_path.glob("openhpu-run-*/*.json")
    ):
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    seen = json.loads(out.splitlines()[-1])
    assert seen["complete"] is (number == signal.SIGINT)
    assert seen["blocking_reads"][0]["line"] == 3


ASKED = """\
import os, signal, sys, time, torch, openhpu
openhpu.phase("weights")
weight = torch.ones(1 << 20, device="hpu")
openhpu.phase("serving")
weight.sum().item()
IGNORE
while not [*__import__("pathlib").Path(os.environ["OPENHPU_REPORT_DATA"]).glob(f"{os.getpid()}.json")]:
    time.sleep(0.02)
os.kill(os.getppid(), signal.SIGUSR1)
print(sys.stdin.readline())
"""


@pytest.mark.parametrize("own", [False, True], ids=["asked", "not asked"])
def test_what_a_running_script_has_done(tmp_path, begin, own):
    """SIGUSR1 shows it; a script that would end by the signal does not get it."""
    ignore = "signal.signal(10, signal.SIG_DFL)" if own else ""
    process = begin(ASKED.replace("IGNORE", ignore), "--report", "page.html")
    said = ""
    while "report: " not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    assert process.poll() is None
    if not own:
        assert "script.py:5: aten::item, 1 time in serving" in said
        assert "it is still running" in said
        assert "weights: 0 steps, 0 new graphs, 4.0 MiB in use at its end" in said
        assert "it is still running" in (tmp_path / "page.html").read_text()
    _, rest = process.communicate("end\n", timeout=60)
    assert process.returncode == 0, rest
    assert "still running" not in rest, rest


FORKS = {  # scripts, and the lines of the reads of each process
    "before the device": (
        """\
import os, torch
pid = os.fork()
x = torch.ones(4).to("hpu")
if pid == 0:
    x.sum().item()
    x.max().item()
    os._exit(0)
os.waitpid(pid, 0)
x.min().item()
""",
        [[5, 6], [9]],
    ),
    "after it was opened": (
        WORK + "import os\nif (pid := os.fork()) == 0:\n    os._exit(0)\nos.waitpid(pid, 0)\nx.max().item()\n",
        [[3, 8]],
    ),
}


@pytest.mark.parametrize("when", FORKS)
def test_a_forked_child_is_a_process_of_its_own_and_spoils_nothing(openhpu_run, when):
    code, expected = FORKS[when]
    run = openhpu_run(code, "--json")
    assert run.code == 0
    lines = [sorted(r["line"] for r in seen["blocking_reads"]) for seen in (run.seen, *run.seen["other_processes"])]
    assert sorted(lines) == expected


def test_each_spawned_rank_has_a_page_of_its_own(openhpu_run, tmp_path):
    run = openhpu_run(
        """\
import os, sys, subprocess
import torch

def work(rank):
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    x = torch.ones(4).to("hpu")
    for _ in range(rank + 1):
        x.sum().item()

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=2)
""",
        "--json",
        "--report",
        "page.html",
    )
    assert run.code == 0, run.err
    ranks = [run.seen, *run.seen["other_processes"]]
    assert [(seen["process"]["rank"], seen["blocking_reads"][0]["count"]) for seen in ranks] == [(0, 1), (1, 2)]
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["page-rank0.html", "page-rank1.html"]
    assert "--- rank 1" in run.err


@pytest.mark.parametrize("target", ["missing/page.html", "."])
def test_an_unwritable_report_is_refused_before_the_script_starts(openhpu_run, tmp_path, target):
    run = openhpu_run("open('started', 'w')\n", "--report", target)
    assert run.code == 2
    assert "the report cannot be written to" in run.err
    assert not (tmp_path / "started").exists()


def test_a_report_that_exists_is_kept_until_there_is_another(openhpu_run, tmp_path):
    (tmp_path / "page.html").write_text("old")
    run = openhpu_run("assert open('page.html').read() == 'old'\n" + WORK, "--report", "page.html")
    assert run.code == 0, run.err
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("ending", ["SIGKILL", "SIGSEGV"])
def test_a_script_that_a_signal_ends_before_the_first_record(openhpu_run, tmp_path, ending):
    """Whether it opened a device is not known."""
    code = f"import os, signal; os.kill(os.getpid(), signal.{ending})"
    run = openhpu_run(code, "--json", "--report", "page.html")
    assert run.code == 128 + signal.Signals[ending]
    assert not run.seen["complete"]
    for told in (run.err, (tmp_path / "page.html").read_text()):
        assert "othing was recorded: a signal ended the script before the first record" in told
        assert "o hpu device was opened" not in told


ARGUMENTS = "import sys; print(sys.argv[1:], sys.prefix)"
STARTED = {  # the command, its exit code, and what it prints
    "a program by its path": (("--", "./shell", "x"), 0, "shell x"),
    "one in another folder": (("--", "/bin/echo", "x"), 0, "x"),
    "one with the name of a folder": (("--", "echo", "x"), 0, "x"),
    "without --": (("echo", "x"), 0, "x"),
    "one with the name of a script": (("--", "env", "echo", "x"), 0, "x"),
    "a script of that name": (("env", "x"), 0, f"['x'] {sys.prefix}"),
    "a script": (("script.py", "x"), 0, f"['x'] {sys.prefix}"),
    "a script after --": (("--", "script.py", "x"), 0, f"['x'] {sys.prefix}"),
    "a folder with a program": (("folder", "x"), 0, f"['x'] {sys.prefix}"),
    "not executable": (("--", "./text"), 2, "there is no script './text'; expected a file, -m and a module, or -- and"),
    "no interpreter line": (("--", "./headless"), 2, "headless cannot be started: Exec format error"),
}


@pytest.mark.parametrize("what", STARTED)
def test_which_programs_and_scripts_are_started(openhpu_run, tmp_path, what):
    command, code, printed = STARTED[what]
    (tmp_path / "echo").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(ARGUMENTS)
    files = {
        "shell": ("#!/bin/sh\necho shell $*", 0o755),
        "env": (ARGUMENTS, 0o644),
        "text": ("x", 0o644),
        "headless": ("x", 0o755),
    }
    for name, (text, mode) in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    run = openhpu_run(ARGUMENTS, script=command)
    assert run.code == code
    assert run.out == printed if code == 0 else printed in run.err and "Traceback" not in run.err


def test_a_missing_script_and_missing_arguments(capsys):
    assert cli.main(["run", "no_such_script.py"]) == 2
    assert "there is no script 'no_such_script.py'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--mode", "lazy"])
    assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--mode", "fast", os.devnull])
    assert ended.value.code == 2
    assert "invalid choice: 'fast'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fail_on", "ending", "code"),
    [
        ("read", "", 3),
        ("fallback,read", "", 3),
        ("fallback", "", 0),
        ("read", "import sys; sys.exit(7)", 7),
        ("shape", "x.nonzero()", 3),
        ("shape", "", 0),
    ],
)
def test_what_was_seen_can_fail_a_run(openhpu_run, fail_on, ending, code):
    run = openhpu_run(WORK + ending + "\n", "--fail-on", fail_on)
    assert run.code == code
    assert ("failed because of --fail-on: read" in run.err) == ("read" in fail_on)


def test_what_cannot_fail_a_run_is_named(openhpu_run):
    run = openhpu_run(WORK, "--fail-on", "recompilations")
    assert run.code == 2
    assert f"--fail-on: expected {', '.join(launch.FAILURES)}, got 'recompilations'" in run.err


def test_a_run_can_be_strict_and_can_fail_for_a_difference(openhpu_run):
    code = EXAMPLES["graphs-in-eager"].code
    strict = openhpu_run(code, "--strict", "--mode", "eager")
    assert strict.code == 1
    assert "HPU graphs are not supported in eager mode" in strict.err
    kind = openhpu_run(code, "--json", "--fail-on=kindness,read", "--mode", "eager")
    assert kind.code == 3
    assert "failed because of --fail-on: difference" in kind.err  # kindness is its older name
    assert [row["kind"] for row in kind.seen["differences"]] == ["graphs-in-eager"]
