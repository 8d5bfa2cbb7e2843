import os
import shutil
import subprocess
from pathlib import Path

import pytest

from openhpu.compiler.client import disk_cache
from openhpu.settings import folders

PROGRAM = """
    import torch, openhpu, habana_frameworks.torch.core as htcore
    x = torch.ones(100, device="hpu")
    for _ in range(3):
        y = (x * 2).relu().sum()
        htcore.mark_step()
    print(y.item(), openhpu.counters()["recipe_hits"] > 0)
    try:
        open(openhpu.__file__, "a")
    except OSError as error:
        print(error.strerror)
"""


def test_the_home_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders.home() == tmp_path


def test_a_user_without_a_home_has_a_folder_of_its_own(monkeypatch, tmp_path):
    def none():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", none)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = folders.home()
    assert home == tmp_path / f"openhpu-{os.getuid()}"
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert disk_cache.default_path() == home / ".cache" / "openhpu" / "recipes"
    assert disk_cache.own_folder(disk_cache.default_path())
    assert home.stat().st_mode & 0o022 == 0


def test_packages_that_cannot_be_written_and_a_user_whom_passwd_does_not_have(script, tmp_path):
    """As in a container that was started with --user and --read-only."""
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*namespace, "true"], capture_output=True, timeout=30).returncode:
        pytest.skip("this machine allows no namespaces")
    (tmp_path / "tmp").mkdir()
    # The interpreter is started anew in there; what it prints comes from it.
    code = f"""
        import os, sys, textwrap, openhpu
        folder = os.path.dirname(openhpu.__file__)
        del os.environ["HOME"]
        program = textwrap.dedent({PROGRAM!r})
        inner = ["unshare", "--user", "--map-user=12345", sys.executable, "-W", "error", "-c", program]
        shell = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
        os.execvp("unshare", {namespace!r} + ["sh", "-c", shell, folder] + inner)
    """
    variables = {"TMPDIR": str(tmp_path / "tmp"), "PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync"}
    result = script(code, **variables)
    assert result.out.splitlines() == ["200.0 True", "Read-only file system"]
    kept = [*(tmp_path / "tmp").glob("openhpu-*/.cache/openhpu/recipes/*")]
    assert kept
