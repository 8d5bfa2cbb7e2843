"""Two commits in turns: who is measured when, what is repeated and kept, and what cannot be measured."""

import itertools
import shutil
import subprocess
import sys

import pytest

from benchmarks import before, before_build
from benchmarks.before import Canary, Comparison, RowError
from benchmarks.before_build import BuildError, Side
from commands.kept import Kept

OLD, TODAY = Side("old", sys.executable, "old"), Side("today", sys.executable, "today")


def canary(*times):
    """One whose work takes these seconds, one after another, the first of them its best."""
    readings = itertools.chain.from_iterable(
        (0.0, taken) for taken in itertools.chain(times, itertools.repeat(times[-1]))
    )
    found = Canary(work=lambda: None, clock=lambda: next(readings), cores=1)
    found.slow()
    return found


@pytest.fixture
def kept(tmp_path):
    return Kept("before", "some code", tmp_path)


def comparison(kept, times, taken):
    """One whose turns take what `times` gives for the row and the side, and are listed in `taken`."""

    def take(row, side):
        taken.append((row, side.name))
        return {"step": times(row, side.name)}

    return Comparison((OLD, TODAY), kept, canary(1.0), take, say=lambda text: None)


def test_the_sides_alternate_and_all_rows_have_a_turn_before_the_next(kept, monkeypatch):
    monkeypatch.setattr(before, "_WAIT_S", 0)
    taken = []
    found = comparison(kept, lambda row, side: 2.0 if side == "old" else 3.0, taken)
    found.measure(["a", "b"], 2)
    assert taken == [("a", "old"), ("a", "today"), ("b", "old"), ("b", "today")] * 2
    assert found.turns("a") == [{"idle": True, "before": {"step": 2.0}, "today": {"step": 3.0}}] * 2


def test_a_run_goes_on_with_the_turns_that_are_missing(kept, monkeypatch):
    monkeypatch.setattr(before, "_WAIT_S", 0)
    comparison(kept, lambda row, side: 1.0, []).measure(["a"], 2)
    taken = []
    again = Kept("before", "some code", kept.path.parent)
    comparison(again, lambda row, side: 1.0, taken).measure(["a", "b"], 3)
    assert [row for row, _ in taken] == ["b", "b", "b", "b", "a", "a", "b", "b"]
    other = Kept("before", "other code", kept.path.parent)
    assert other.results == {}


def test_a_row_that_fails_is_left_out(kept, monkeypatch):
    monkeypatch.setattr(before, "_WAIT_S", 0)
    taken = []

    def times(row, side):
        if (row, side) == ("b", "today"):
            raise RowError("the row 'b' cannot be measured at today: no such name")
        return 1.0

    found = comparison(kept, times, taken)
    found.measure(["a", "b"], 2)
    a, b = [("a", "old"), ("a", "today")], [("b", "old"), ("b", "today")]
    assert taken == [*a, *b, *a]
    table = found.table(["a", "b"])
    assert [row[:2] for row in table.rows] == [["a", "step"]]
    assert "the row 'b' cannot be measured at today: no such name." in table.notes


def test_a_turn_beside_a_slow_canary_is_repeated():
    results = iter([{"step": 9.0}, {"step": 1.0}])
    # Idle before the first turn, slow after it; idle around the second.
    found = before.undisturbed(lambda: next(results), canary(1.0, 1.0, 1.5, 1.0, 1.0), lambda seconds: None)
    assert found == ({"step": 1.0}, True)


def test_a_turn_waits_for_an_idle_machine():
    taken = []
    seen = canary(1.0, 1.5, 1.5, 1.0, 1.0)
    waits = []
    found = before.undisturbed(lambda: taken.append(len(waits)) or {}, seen, waits.append)
    assert taken == [2] and found == ({}, True)


def test_tries_are_bounded_on_a_busy_machine():
    taken, waits = [], []
    found = before.undisturbed(lambda: taken.append(1) or {"step": 1.0}, canary(1.0, 1.5), waits.append)
    assert found == ({"step": 1.0}, False)
    assert len(taken) == before._TRIES and len(waits) == before._TRIES * (before._WAITS + 1)


def test_the_canary_runs_on_each_core_and_knows_its_best_time():
    worked = []
    found = Canary(work=lambda: worked.append(1), cores=3)
    found.learn(2)
    assert len(worked) == 6 and 0 < found.best < float("inf")


def test_the_table_has_the_turns_on_an_idle_machine_and_says_what_is_slower(kept):
    found = comparison(kept, lambda row, side: 1.0, [])
    for number, (idle, ratio) in enumerate([(True, 1.1), (False, 5.0), (True, 1.2), (True, 1.3)]):
        turn = {"idle": idle, "before": {"step": 2.0, "read": 1.0}, "today": {"step": 2.0 * ratio, "read": 1.0}}
        kept.add(f"a, turn {number}", turn)
    kept.add("b, turn 0", {"idle": False, "before": {"step": 1.0}, "today": {"step": 1.0}})
    table = found.table(["a", "b"])
    step, read, busy = table.rows
    assert (step[5].median, step[5].low, step[5].high) == pytest.approx((1.2, 1.1, 1.3))
    assert (step[2], step[-1], read[-1]) == (3, "slower", "")
    assert busy[:3] == ["b", "step", 1]
    assert table.notes[:2] == [
        "a: left out are 1 turns in which the machine was not idle.",
        "b: the machine was idle in none of 1 turns, which stand here.",
    ]


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ((1.1, 1.01, 1.2), "slower"),
        ((1.1, 0.9, 1.2), ""),
        ((1.04, 1.01, 1.1), ""),
        ((0.9, 0.8, 0.99), "faster"),
        ((0.9, 0.8, 1.01), ""),
    ],
)
def test_slower_is_what_every_turn_says(ratios, expected):
    assert before.verdict(*ratios) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["HEAD", "none"], "unknown row 'none'; one of start, dispatch"),
        (["HEAD", "--turns", "0"], "--turns is 0; at least 1 turn is taken"),
        ([], "the following arguments are required: commit"),
    ],
)
def test_arguments_that_are_refused(arguments, expected, capsys):
    with pytest.raises(SystemExit):
        before.arguments(arguments)
    assert expected in capsys.readouterr().err


def test_a_row_that_a_commit_lacks_is_named(tmp_path):
    package = tmp_path / "packages" / "openhpu"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def __getattr__(name): raise AttributeError(f'no {name} yet')\n")
    side = Side("1234abcd", before_build._environment(tmp_path, [package.parent]), tmp_path)
    with pytest.raises(RowError, match=r"the row 'reads' cannot be measured at 1234abcd: .+") as raised:
        before.turn("reads", side)
    assert "\n" not in str(raised.value)


@pytest.fixture
def repository(tmp_path):
    """Commits a setup.py with a text; gives the repository and the commit."""

    def made(text):
        root = tmp_path / "repository"
        root.mkdir()
        (root / "setup.py").write_text(text)
        for command in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -q -m first"):
            subprocess.run(["git", *command.split()], cwd=root, check=True, timeout=60)
        return root, before_build.resolve("HEAD", root)

    return made


def test_a_commit_is_built_once_with_the_running_environments_packages(repository, tmp_path):
    root, commit = repository(
        "from setuptools import setup\nsetup(name='openhpu', version='9', py_modules=['named'])\n"
    )
    (root / "named.py").write_text("not of the commit")
    subprocess.run(["git", "add", "."], cwd=root, check=True, timeout=60)
    side = before_build.built(commit, root=root, folder=tmp_path / "before")
    versions = "import importlib.metadata as m, torch; print(m.version('openhpu'), torch.__version__)"
    command = [str(side.python), "-c", versions]
    environment = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    seen = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=100)
    assert seen.stdout.split()[0] == "9"
    assert not (side.folder / "source" / "named.py").exists()
    (side.folder / "source" / "setup.py").write_text("raise RuntimeError('built again')")
    assert before_build.built(commit, root=root, folder=tmp_path / "before") == side


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("raise RuntimeError('error: no such header')", "does not build (exit status 1): "),
        ("raise OSError(28, 'No space left on device')", "is full: another commit needs 2 GiB there; make room"),
    ],
)
def test_a_commit_that_does_not_build_is_one_sentence(repository, tmp_path, text, expected):
    root, commit = repository(text)
    with pytest.raises(BuildError) as raised:
        before_build.built(commit, root=root, folder=tmp_path / "before")
    assert expected in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "before" / commit / "ready").exists()


def test_a_disk_without_room_is_refused_before_anything_is_built(repository, tmp_path, monkeypatch):
    root, commit = repository("")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 0))
    with pytest.raises(BuildError, match="is full: another commit needs 2 GiB there; make room and run again"):
        before_build.built(commit, root=root, folder=tmp_path / "before")
    assert not (tmp_path / "before" / commit / "source").exists()


def test_a_commit_that_is_none_is_refused(repository):
    root, _ = repository("")
    with pytest.raises(BuildError, match="has no commit 'abcdef'; `git log` shows those that it has"):
        before_build.resolve("abcdef", root)
