"""What a lane's processes are given, and how its page names the commit."""

import importlib
import os
import subprocess
import textwrap

from ecosystem.install import ENVIRONMENT
from ecosystem.lanes import LANES
from tests.python.commands import planted

main = importlib.import_module("ecosystem.__main__")


def test_packages_beside_go_before_the_environment(tmp_path):
    environment = main.environment_of(LANES["lightning-2.6"], tmp_path, None)
    expected = [str(ENVIRONMENT / name) for name in ("lightning-next", "deepspeed-0.16", "deepspeed", "transformers")]
    assert environment["PYTHONPATH"].split(os.pathsep)[:4] == expected


def test_pages_are_no_changes_of_a_commit(tmp_path, monkeypatch):
    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    page, code = tmp_path / "docs" / "ecosystem" / "timm.md", tmp_path / "code.py"
    page.parent.mkdir(parents=True)
    for path in (page, code, tmp_path / "docs" / "ecosystem.md"):
        path.write_text("first")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    monkeypatch.setattr(main, "ROOT", tmp_path)
    page.write_text("second")
    (tmp_path / "docs" / "ecosystem.md").write_text("second")
    assert "dirty" not in main.commit_and_date()
    code.write_text("second")
    assert "-dirty, " in main.commit_and_date()


COMMAND = """
import importlib, pathlib, sys
from ecosystem.lanes import LANES, Lane, Run
folder = pathlib.Path(sys.argv.pop(1))
runs = tuple(Run(name, (f"test_{name}.py",)) for name in ("first", "second"))
LANES["planted"] = Lane(title="Planted", runs=runs, folder=str(folder))
main = importlib.import_module("ecosystem.__main__")
main.PAGES = folder / "docs" / "ecosystem"
sys.exit(main.main())
"""


def test_a_hang_does_not_outlive_the_budget(tmp_path):
    """The test of the second run hangs, and has closed its process's output. The next time the lane goes on."""
    (tmp_path / "test_first.py").write_text("def test_it():\n    pass\n")
    hang = textwrap.indent(textwrap.dedent(planted.MUTE), "    ")
    (tmp_path / "test_second.py").write_text(f"def test_it():\n{hang}")
    ended, took = planted.run(tmp_path, COMMAND, str(tmp_path), "planted", BUDGET="0.25")
    assert ended.code == 124, ended.output
    assert took < 0.25 * 60 + planted.SLACK_S
    assert "ran then: second: test_second.py::test_it, for " in ended.output
    assert "done: first (1 tests)\n  not done: second\n" in ended.output
    (tmp_path / "test_second.py").write_text("def test_it():\n    pass\n")
    ended, _ = planted.run(tmp_path, COMMAND, str(tmp_path), "planted")
    assert ended.code == 0, ended.output
    assert "=== second" in ended.output and "=== first" not in ended.output
    assert "| first | 1 | 0 |" in (tmp_path / "docs" / "ecosystem" / "planted.md").read_text()
