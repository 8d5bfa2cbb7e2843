"""What runs the tests: the rotating part of the long suites, and the list of the slowest."""

import itertools

import pytest

from tests import run, told
from tests.rotating import shards


def test_each_commit_has_one_part_and_all_have_a_commit():
    number = len(shards.SHARDS)
    assert len({shard.name for shard in shards.SHARDS}) == number
    assert [shards.of(f"{k:040x}") for k in range(number)] == list(shards.SHARDS)
    assert shards.of(f"{number + 1:040x}") == shards.SHARDS[1]
    assert len(shards.commit()) == 40


def test_what_a_part_names_is_there():
    for argument in itertools.chain.from_iterable(shard.arguments for shard in shards.SHARDS):
        if argument.startswith("tests/"):
            assert (run.ROOT / argument.partition("::")[0]).is_file()


def test_random_programs_follow_from_the_commit():
    fuzzed = next(shard for shard in shards.SHARDS if shard.fuzzed)
    assert shards.arguments(fuzzed, "0000000f" + 32 * "0")[-1] == "--hypothesis-seed=15"
    plain = next(shard for shard in shards.SHARDS if not shard.fuzzed)
    assert shards.arguments(plain, 40 * "1") == plain.arguments


def test_the_part_is_named(capsys):
    suite = run.rotating(None)
    chosen = shards.of(shards.commit())
    assert suite.paths()[: len(chosen.arguments)] == list(chosen.arguments)
    assert capsys.readouterr().out.startswith(f"rotating shard: {chosen.name} (of {len(shards.SHARDS)}; commit ")
    assert run.rotating("examples").paths() == ["tests/rotating/test_examples.py"]


def ran_of(**seconds):
    """Tests that passed, by their seconds."""
    ran = run.Ran()
    for test, each in seconds.items():
        ran.add(test, "passed", each)
    return ran


def test_the_slowest_of_all_suites():
    assert run.slowest({"hpu": ran_of(x=1.5, y=0.5), "lazy": ran_of(z=1.0)}) == [
        "    1.5 s  hpu  x", "    1.0 s  lazy  z", "    0.5 s  hpu  y",
    ]  # fmt: skip


def test_only_the_slowest_are_printed():
    lines = run.slowest({"hpu": ran_of(**{f"t{k}": float(k) for k in range(run.SLOWEST + 1)})})
    assert len(lines) == run.SLOWEST
    assert lines[-1].endswith("t1")


class Heard:
    """In a budget's place: what it is told."""

    def __init__(self):
        self.said = []
        self.tests = []
        self.finished = {}

    def seconds(self, most=60.0):
        return most

    def say(self, *lines):
        self.said += lines

    def progress(self, suite, test):
        self.tests.append(test)

    def done(self, name, how):
        self.finished[name] = how


def run_file(folder, code):
    """Run a suite of one test file; what came of it, and what was told."""
    (folder / "test_it.py").write_text(code)
    suite = run.Suite("", False, arguments=(str(folder / "test_it.py"), "-p", "no:cacheprovider"))
    ran, heard = run.Ran(), Heard()
    run.run_suite("mine", suite, [], heard, ran)
    return ran, heard


@pytest.fixture(autouse=True)
def build(tmp_path, monkeypatch):
    monkeypatch.setattr(run.followed, "FOLDER", tmp_path / "build")


def test_a_suite_is_a_session_of_its_own(tmp_path):
    """Else a compiler of the lowest priority would be starved by the suite beside it."""
    ran, heard = run_file(tmp_path, "import os\n\ndef test_it():\n    assert os.getsid(0) == os.getpid()\n")
    assert ran.counts == {"passed": 1}
    assert heard.finished == {"mine": "1 passed, 0 failed, 0 skipped"}
    assert any(test.endswith("test_it.py::test_it") for test in heard.tests)
    assert heard.said[-1].splitlines()[-1].startswith("=== mine ended after")


OUTCOMES = """
import pytest
@pytest.fixture
def bad():
    assert 0, "the fixture"
@pytest.fixture
def late():
    yield
    assert 0, "the teardown"
def test_good(): pass
def test_bad(): assert 0, "the test"
def test_error(bad): pass
def test_late(late): pass
@pytest.mark.skip
def test_skip(): pass
@pytest.mark.xfail(strict=True)
def test_expected(): assert 0
@pytest.mark.xfail(strict=True)
def test_unexpected(): pass
"""


def test_outcomes_are_those_of_pytest(tmp_path):
    ran, heard = run_file(tmp_path, OUTCOMES)
    assert ran.counts == {"passed": 1, "failed": 4, "skipped": 2}
    failures = {test.rpartition("::")[2]: text for test, text in ran.failures.items()}
    assert failures.keys() == {"test_bad", "test_error", "test_late", "test_unexpected"}
    assert "the test" in failures["test_bad"] and "the fixture" in failures["test_error"]
    assert "the teardown" in failures["test_late"]
    assert sum("FAILED" in line for line in heard.said[:-1]) == 4


@pytest.mark.parametrize("code", ["import no_such_module", "def test_it(:", "import os; os._exit(3)"])
def test_a_file_that_cannot_be_read_is_a_failure(tmp_path, code):
    ran, _ = run_file(tmp_path, code)
    assert ran.counts["failed"] >= 1 and not ran.counts["passed"]


def test_a_process_that_dies_costs_one_test(tmp_path):
    ran, heard = run_file(
        tmp_path,
        "import os\ndef test_a(): pass\ndef test_b(): os._exit(0)\ndef test_c(): os.abort()\ndef test_d(): pass\n",
    )
    assert ran.counts == {"passed": 2, "failed": 2}
    assert [test.rpartition("::")[2] for test in ran.failures] == ["test_b", "test_c"]
    assert any("test_b: its process ended: exit status 0" in line for line in heard.said)
    assert any("test_c: its process ended: SIGABRT" in line for line in heard.said)


def test_a_process_that_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr(run.followed, "_END_S", 0.5)
    ran, _ = run_file(tmp_path, "import atexit, time\natexit.register(time.sleep, 600)\ndef test_it(): pass\n")
    assert ran.counts == {"passed": 1, "failed": 1}
    assert "no test for 0.5 s" in ran.failures["mine"]


def test_a_time_for_each_test(monkeypatch):
    monkeypatch.delenv("FUZZ", raising=False)
    assert told.limit("tests/hpu/test_views.py::test_x") == told.LIMIT_S == 120
    assert told.limit("tests/rotating/test_examples.py::test_x[a]") > 900
    for pattern, (seconds, reason) in (told.LONGER | told.FUZZED).items():
        assert any(run.ROOT.glob(pattern.partition("::")[0])), pattern
        assert seconds > told.LIMIT_S and len(reason) > 10
    monkeypatch.setenv("FUZZ", "nightly")
    assert told.limit("tests/fuzz/test_programs.py::test_x") == 3000
    monkeypatch.setenv("TESTS_SECONDS", "12")
    assert told.limit("tests/hpu/test_views.py::test_x") == 12
    assert told.limit("tests/fuzz/test_programs.py::test_x") == 300
