"""A lane ends with its budget, and goes on from there."""

import textwrap

from tests.python.commands import planted

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
