"""The pytest plugin, in a pytest of its own: markers, fixtures, the report."""

import json
import os
import re
import textwrap

import pytest

from tests.processes import run_python

TESTS = """
import os, pytest, torch, unittest

def fall_back():
    return torch.ones(3, dtype=torch.complex64, device="hpu").sin()

@pytest.mark.hpu_no_fallback
def test_marked():
    fall_back()

def test_by_a_fixture(hpu_no_fallback):
    fall_back()

@pytest.mark.hpu_no_fallback
@pytest.mark.hpu_no_waits
@pytest.mark.hpu_max_memory(2**30)
def test_right():
    torch.ones(3, device="hpu") + 1

@pytest.mark.hpu_no_waits
def test_reads():
    torch.ones(3, device="hpu").sum().item()

def test_free():
    fall_back().cpu()

class TestCase(unittest.TestCase):
    @pytest.mark.hpu_max_memory(10)
    def test_memory(self):
        torch.ones(1 << 16, device="hpu").cpu()

def test_part(hpu_expect):
    with hpu_expect(no_fallback=True):
        torch.ones(3, device="hpu")

@pytest.fixture
def broken():
    raise ValueError

@pytest.fixture
def breaks_later():
    yield
    raise ValueError

def test_does_not_begin(broken): pass

def test_fails_afterwards(breaks_later): pass

@pytest.mark.skip
def test_never(): pass

def test_forks():
    read()
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def test_after_it(): pass

def read():
    torch.ones(3, device="hpu").sum().item()

class TestParts(unittest.TestCase):
    def test_parts(self):
        for k in range(3):
            with self.subTest(k=k):
                read()
                self.assertNotEqual(k, 1)

def test_passing_parts(subtests):
    for k in range(3):
        with subtests.test(k=k):
            read()
"""


def run(folder, tests, *options, plugins=(), code=1, **environment):
    (folder / "test_it.py").write_text(textwrap.dedent(tests))
    plugins = [part for name in ("openhpu.testing.plugin", *plugins) for part in ("-p", name)]
    forks = ("-W", "ignore:This process:DeprecationWarning")  # from Python 3.12 on, beside threads
    command = ["-m", "pytest", "-p", "no:cacheprovider", *plugins, "-q", *forks, *options, "test_it.py"]
    variables = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GITHUB_ACTIONS": "", "PYTEST_ADDOPTS": ""}
    ended = run_python(command, folder, variables | environment, fails=None)
    assert ended.code == code, ended.out + ended.err
    return ended.out + ended.err


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reported")
    output = run(folder, TESTS, "--hpu-report=page.html", GITHUB_ACTIONS="true")
    rows = json.loads((folder / "page.json").read_text())["tests"]
    return folder, output, {row["test"].rpartition("::")[2]: row for row in rows}


def test_what_was_excluded_fails_and_names_operator_and_line(reported):
    folder, output, _ = reported
    assert "5 failed, 8 passed, 1 skipped, 2 errors" in output
    assert f"aten::sin on ComplexFloat ran on the CPU at {folder}/test_it.py:5, 1 time" in output
    number = next(k for k, line in enumerate(TESTS.splitlines(), 1) if line.endswith(".item()"))
    assert f"aten::item waited for the device at {folder}/test_it.py:{number}, 1 time" in output
    assert "bytes, expected at most 10" in output


def test_the_report_has_each_test(reported):
    folder, output, by_name = reported
    assert len(by_name) == 14
    assert by_name["test_free"]["fallbacks"] == [
        {"op": "aten::sin on ComplexFloat", "line": f"{folder}/test_it.py:5", "count": 1}
    ]
    assert by_name["test_free"]["outcome"] == "passed"
    assert not by_name["test_right"]["fallbacks"]
    assert by_name["test_memory"]["peak_bytes"] >= 1 << 18
    page = (folder / "page.html").read_text()
    assert page.count("<tr><td>") == 14
    assert page.count("<th") == 9 + 1
    assert "http" not in page
    (cells,) = re.findall(r"<tr><td>test_it.py::test_free(.*?)</tr>", page)
    assert cells.startswith("<details><summary>2 lines</summary>aten::sin on ComplexFloat on the CPU at")
    assert re.findall('data-value="(.*?)"', cells)[-3:-1] == ["1", "1"]  # on the CPU, waits
    assert "14 tests: " in output
    assert "on the CPU: aten::sin on ComplexFloat, 3 times" in output
    assert "::warning file=test_it.py,line=5::aten::sin on ComplexFloat runs on the CPU on hpu" in output


def test_workers_of_xdist_have_a_module_each(tmp_path):
    tests = """
    import os, pytest, time, torch
    @pytest.mark.parametrize("n", range(4))
    def test_it(n):
        time.sleep(0.2)
        print(torch.ones(3, device="hpu").sum().item(), os.environ["HABANA_VISIBLE_MODULES"])
    """
    options = ("--hpu-report=page.html", "-n2", "-rP")
    output = run(tmp_path, tests, *options, plugins=("xdist.plugin",), code=0, OPENHPU_DEVICE_COUNT="8")
    assert "4 passed" in output
    assert len(json.loads((tmp_path / "page.json").read_text())["tests"]) == 4


def test_a_graph_after_the_warm_up_is_named(tmp_path):
    tests = """
    import pytest, torch
    import habana_frameworks.torch.core as htcore
    @pytest.mark.hpu_no_compilation_after(4)
    def test_sizes():
        for k in range(8):
            x = torch.ones(3 if k < 6 else 9, device="hpu")
            y = x * 2
            htcore.mark_step()
    @pytest.mark.hpu_no_compilation_after(warm_steps=4)
    def test_one_size():
        for k in range(8):
            x = torch.ones(3, device="hpu")
            y = x * 2
            htcore.mark_step()
    """
    output = run(tmp_path, tests, PT_HPU_LAZY_MODE="1")
    assert "1 failed, 1 passed" in output
    assert f"compiled after 4 steps: a new graph, which begins at {tmp_path}/test_it.py:7" in output


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("hpu_no_fallback(3)", "test_it.py::test_it: the marker hpu_no_fallback takes no argument, got [3]"),
        ("hpu_max_graphs()", "hpu_max_graphs(n) takes an integer of 0 or more, got []"),
        ("hpu_max_memory('1 GB')", "hpu_max_memory(bytes) takes an integer of 0 or more, got ['1 GB']"),
        ("hpu_no_compilation_after(steps=3)", "hpu_no_compilation_after(warm_steps) takes an integer"),
    ],
)
def test_a_wrong_argument_is_named(tmp_path, marker, message):
    tests = f"import pytest\n@pytest.mark.{marker}\ndef test_it():\n    pass\n"
    assert message in run(tmp_path, tests, code=4)


@pytest.mark.parametrize("page", ["missing/page.html", "page.json"])
def test_a_page_that_cannot_be_written_is_named(tmp_path, page):
    output = run(tmp_path, "def test_it(): pass", f"--hpu-report={page}", code=4)
    assert f"--hpu-report: {page}" in output


def test_two_runs_do_not_write_one_page(tmp_path):
    tests = """
    import subprocess, sys
    def test_it():
        argv = [sys.executable, "-m", "pytest", "-p", "openhpu.testing.plugin", "--hpu-report=page.html", "none.py"]
        found = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert "page.html is being written by another run" in found.stderr, found
    """
    run(tmp_path, tests, "--hpu-report=page.html", code=0)
    assert not (tmp_path / "page.lock").exists()


def test_without_marker_and_option_torch_is_not_imported(tmp_path):
    run(tmp_path, "import sys\ndef test_it(): assert 'torch' not in sys.modules", code=0)


@pytest.mark.parametrize(
    ("name", "outcome", "waits"),
    [
        ("does_not_begin", "error", []),
        ("fails_afterwards", "error", []),
        ("never", "skipped", []),
        ("forks", "passed", [1]),
        ("after_it", "passed", []),
        ("parts", "failed", [3]),
        ("passing_parts", "passed", [3]),
    ],
)
def test_each_test_has_one_row_of_what_its_own_process_did(reported, name, outcome, waits):
    """Also one that does not begin or fails afterwards, one that forks, and one with subtests."""
    row = reported[2][f"test_{name}"]
    assert (row["outcome"], [one["count"] for one in row["waits"]]) == (outcome, waits)


def test_what_was_collected_before_a_crash_is_written(tmp_path):
    tests = """
    import os, pathlib, time, torch
    def test_first(): torch.ones(3, device="hpu").sum().item()
    def test_second():
        page = pathlib.Path("page.json")
        assert "test_first" in page.read_text()
        os._exit(7)
    """
    run(tmp_path, tests, "--hpu-report=page.html", code=7)
    (row,) = json.loads((tmp_path / "page.json").read_text())["tests"]
    assert row["test"].endswith("test_first")
    assert row["waits"]
    assert (tmp_path / "page.html").exists()
    run(tmp_path, "def test_it(): pass", "--hpu-report=page.html", code=0)  # its lock went with it


@pytest.mark.parametrize(("options", "code"), [((), 1), (("--hpu-strict",), 0)])
def test_a_run_can_be_strict(tmp_path, options, code):
    tests = "def test_it():\n    from openhpu import settings\n    assert settings.is_strict()\n"
    run(tmp_path, tests, *options, code=code)
