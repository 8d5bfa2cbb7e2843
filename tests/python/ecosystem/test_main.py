"""What a lane's processes are given, and how its page names the commit."""

import importlib
import os
import subprocess

from ecosystem.install import ENVIRONMENT
from ecosystem.lanes import LANES

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
