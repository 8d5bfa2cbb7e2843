"""What runs the tests: the rotating part of the long suites, and the list of the slowest."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

from tests import run
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


def test_a_report_of_pytest_is_read(tmp_path):
    path = tmp_path / "report.xml"
    path.write_text(
        '<testsuites><testsuite tests="4" failures="1" errors="0" skipped="1">'
        '<testcase classname="a" name="x" time="1.5"/><testcase classname="a" name="y" time="0.5"/>'
        "</testsuite></testsuites>"
    )
    ran = run.read(path)
    assert ran.counts == {"passed": 2, "failed": 1, "skipped": 1}
    assert run.slowest({"hpu": ran, "lazy": ran._replace(seconds={"b::z": 1.0})}) == [
        "    1.5 s  hpu  a::x", "    1.0 s  lazy  b::z", "    0.5 s  hpu  a::y",
    ]  # fmt: skip


def test_only_the_slowest_are_printed():
    ran = run.Ran(run.Counter(), {f"t{k}": float(k) for k in range(run.SLOWEST + 1)})
    lines = run.slowest({"hpu": ran})
    assert len(lines) == run.SLOWEST
    assert lines[-1].endswith("t1")


def suite_of(folder, code):
    """A suite of one test file."""
    (folder / "test_it.py").write_text(code)
    return run.Suite("", False, arguments=(str(folder / "test_it.py"), "-p", "no:cacheprovider"))


def test_a_suite_is_a_session_of_its_own(tmp_path, capsys):
    """Else a compiler of the lowest priority would be starved by the suite beside it."""
    suite = suite_of(tmp_path, "import os\n\ndef test_it():\n    assert os.getsid(0) == os.getpid()\n")
    assert run.run_suite("mine", suite, []).counts == {"passed": 1, "failed": 0, "skipped": 0}
    assert "=== mine ended after" in capsys.readouterr().out


def test_a_ctrl_c_reaches_the_suites(tmp_path, capsys):
    begun = tmp_path / "begun"
    code = f"import pathlib, time\n\ndef test_it():\n    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(300)\n"
    with ThreadPoolExecutor(1) as pool:
        ran = pool.submit(run.run_suite, "mine", suite_of(tmp_path, code), [])
        while not begun.exists():
            time.sleep(0.01)
        run.interrupt()
        assert ran.result(60).counts["failed"] == 1
    assert "KeyboardInterrupt" in capsys.readouterr().out
