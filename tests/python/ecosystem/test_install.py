"""What a lane says that it lacks."""

import pytest

from ecosystem import install
from ecosystem.lanes import LANES


def test_lacks_a_folder_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "ENVIRONMENT", tmp_path)
    (tmp_path / "deepspeed").mkdir()
    with pytest.raises(install.LackingError, match=r"`make \.venv/transformers` installs it"):
        install.install("lightning-2.5", LANES["lightning-2.5"], tmp_path)


def test_a_folder_that_is_no_checkout(tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPSPEED", str(tmp_path))
    with pytest.raises(install.LackingError, match=r"DEEPSPEED=.* has no pyproject\.toml or setup\.py"):
        install._checkout("deepspeed-tests", LANES["deepspeed-tests"].checkout, tmp_path, tmp_path)


def test_another_commit_of_a_checkout_is_installed_anew(tmp_path, monkeypatch):
    given, folder = tmp_path / "given", tmp_path / "lane"
    given.mkdir()
    folder.mkdir()
    run = install.child.run
    installed = []

    def without_pip(command, **options):
        if command[0] == "git":
            return run(command, **options)
        installed.append((folder / "DeepSpeed" / "setup.py").read_text())
        return run(["true"], seconds=60)

    def commit(text):
        (given / "setup.py").write_text(text)
        for arguments in (("add", "."), ("commit", "-q", "-m", text)):
            git = ["git", "-C", str(given), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
            assert run(git, seconds=60).code == 0
        install._checkout("deepspeed-tests", LANES["deepspeed-tests"].checkout, folder, folder)
        return install.commit_in(LANES["deepspeed-tests"].checkout, folder)

    assert run(["git", "init", "-q", str(given)], seconds=60).code == 0
    monkeypatch.setenv("DEEPSPEED", str(given))
    monkeypatch.setattr(install.child, "run", without_pip)
    first, second = commit("first"), commit("second")
    assert installed == ["first", "second"]
    assert first != second and first[0] == second[0] == "DeepSpeed"
