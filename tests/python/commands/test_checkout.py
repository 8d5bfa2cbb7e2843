"""Which code a result is of."""

import subprocess

import pytest

from commands import checkout

# Sections of RESULTS.md, and their commits; and the same of runs of a lane.
SECTIONS = {"new": "{new}", "old": "{old}", "changed": "{new}+", "lost": "0123456789ab"}
RUNS = {"eager": "{old}", "lazy": "{new}-dirty"}


@pytest.fixture
def repository(tmp_path):
    for folder in ("benchmarks", "docs/ecosystem", "src"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "benchmarks" / "RESULTS.md").write_text("")
    _git(tmp_path, "init")
    _commit(tmp_path)
    return tmp_path


def _git(root, *arguments):
    identity = ["-c", "user.name=n", "-c", "user.email=e@x"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, timeout=60)


def _commit(root):
    code = root / "src" / "a.py"
    code.write_text(code.read_text() + "1" if code.exists() else "1")
    _git(root, "add", ".")
    _git(root, "commit", "-m", "a commit")
    return checkout.commit(root)


@pytest.mark.parametrize("name", ["src/a.py", "new.py"])
def test_other_files_may_not(repository, name):
    (repository / name).write_text("2")
    assert f"1 files differ from the commit ({name} ...)" in checkout.why_not(repository)
    assert checkout.commit(repository).endswith("+")


def test_what_is_older_than_the_code(repository):
    old = checkout.commit(repository)
    new = _commit(repository)
    section = "\n## {}\n\ndate: 2026-11-28; commit: {}; load average: 0.\n"
    results = "".join(section.format(*each) for each in SECTIONS.items())
    runs = "".join(f"| {name} | 1 | {commit}, 2026-11-28 |\n" for name, commit in RUNS.items())
    (repository / "benchmarks" / "RESULTS.md").write_text("# Results\n" + results.format(old=old, new=new))
    page = "| run | passed | commit |\n| --- | --- | --- |\n" + runs.format(old=old, new=new)
    (repository / "docs" / "ecosystem" / "lane.md").write_text(page)
    assert list(checkout.older(repository)) == [
        f"benchmarks/RESULTS.md, old: {old}, 1 commits changed csrc or src since",
        f"benchmarks/RESULTS.md, changed: {new}+, whose tree had changes",
        "benchmarks/RESULTS.md, lost: 0123456789ab, which is not in the history",
        f"docs/ecosystem/lane.md, eager: {old}, 1 commits changed csrc or src since",
        f"docs/ecosystem/lane.md, lazy: {new}-dirty, whose tree had changes",
    ]
