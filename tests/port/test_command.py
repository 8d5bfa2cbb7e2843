import subprocess

import pytest

from openhpu_port.command import main


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("x = f('hpu')\n")
    return path


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, timeout=60)


def test_a_diff_is_printed_and_nothing_written(script, capsys):
    assert main(["--to", "xpu", str(script)]) == 0
    assert capsys.readouterr().out.endswith("@@ -1 +1 @@\n-x = f('hpu')\n+x = f('xpu')\n")
    assert "hpu" in script.read_text()


def test_a_folder_is_written_and_the_rest_listed(script, capsys):
    (script.parent / "b.py").write_text("\nimport torch\ntorch.hpu.unheard()\n")
    (script.parent / "c.py").write_text("x = (\n")
    (script.parent / "d.py").write_bytes(b"'\xe4'\n")
    assert main(["--to", "cuda", "--write", str(script.parent)]) == 1
    assert script.read_text() == "x = f('cuda')\n"
    errors = capsys.readouterr().err
    assert f"{script.parent}/b.py:3: torch.hpu.unheard: no counterpart is known" in errors
    assert "c.py: line " in errors
    assert "is not Python" in errors
    assert "d.py: " in errors
    assert "UTF-8" in errors


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("nothing.py", None, "there is no"),
        ("x.txt", "", "has no Python files"),
        ("b.py", "x = (\n", "no file could be"),
    ],
)
def test_bad_input(tmp_path, capsys, name, text, error):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    assert main(["--to", "cuda", str(path if text is None else tmp_path)]) == 2
    assert error in capsys.readouterr().err


def test_uncommitted_changes_ask_for_force(script, capsys):
    git(script.parent, "init", "-q")
    assert main(["--to", "cpu", "--write", str(script)]) == 2
    assert "--force" in capsys.readouterr().err
    assert "hpu" in script.read_text()
    git(script.parent, "add", "-A")
    git(script.parent, "commit", "-qm", "a")
    assert main(["--to", "cpu", "--write", str(script)]) == 0
    assert script.read_text() == "x = f('cpu')\n"
    assert main(["--from", "cuda", "--write", "--force", str(script)]) == 0
