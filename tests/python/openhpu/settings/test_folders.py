import contextlib
import os
import resource
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


TRAIN = """
import torch, openhpu, habana_frameworks.torch.core as htcore
torch.manual_seed(0)
w = torch.ones(4, device="hpu", requires_grad=True)
for _ in range(4):
    loss = (w * 3).sum()
    loss.backward()
    htcore.mark_step()
    with torch.no_grad():
        w -= 0.1 * w.grad
    w.grad = None
    htcore.mark_step()
torch.linalg.svdvals(torch.eye(2, device="hpu"))  # a fallback, which is logged
openhpu.wait_for_recipes()
print(round(loss.item(), 3))
"""
# No file can grow, as on a full disk. What is said goes to a file at the end, when this is over.
FULL = """
import atexit, io, resource, sys
before, shown = resource.getrlimit(resource.RLIMIT_FSIZE), (sys.stdout, sys.stderr)
sys.stdout, sys.stderr = io.StringIO(), io.StringIO()

@atexit.register
def tell():
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    for said, file in zip((sys.stdout, sys.stderr), shown):
        print(said.getvalue(), file=file)

resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
"""
LAZY = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync"}
# What writes; where {here} is the folder; what is said, once, or for each of three graphs.
WRITERS = {
    "recipes": ({**LAZY, "PT_HPU_RECIPE_CACHE_CONFIG": "{here}"}, "No usable temporary directory found in ['/tmp'"),
    "graphs": (
        {**LAZY, "GRAPH_VISUALIZATION": "1", "PT_HPU_GRAPH_DUMP_PREFIX": "{here}"},
        "graphs cannot be written to {here}: File too large",
    ),
    "logs": ({"LOG_LEVEL_ALL": "0", "HABANA_LOGS": "{here}"}, "the log {here}/pytorch_log.txt cannot be written"),
    "the log of migration": (
        {"PT_HPU_GPU_MIGRATION": "1", "GPU_MIGRATION_LOG_LEVEL": "2", "HABANA_LOGS": "{here}"},
        "the log {here}/gpu_migration.log cannot be written",
    ),
    "traces": ({"HABANA_PROFILE": "1"}, "can't be written: File too large"),
    "metrics": (
        {
            "PT_HPU_METRICS_FILE": "{here}/metrics.json",
            "PT_HPU_METRICS_DUMP_TRIGGERS": "mark_step,metric_change,process_exit",
        },
        "metrics cannot be written: [Errno 27] File too large: '{here}/metrics.json'",
    ),
    "reports": ({"OPENHPU_REPORT_DATA": "{here}"}, "the data of the report cannot be written"),
    "hl-smi": ({"OPENHPU_SMI_FOLDER": "{here}"}, ""),  # nobody asked for it
}


@pytest.mark.parametrize("what", WRITERS)
def test_a_full_disk_costs_what_is_written_and_one_message(script, tmp_path, what):
    (here := tmp_path / "here").mkdir(mode=0o700)
    variables, text = WRITERS[what]
    variables = {name: value.format(here=here) for name, value in variables.items()}
    result = script(FULL + TRAIN, warnings="always", **variables)
    assert result.out == "1.2"
    assert "Traceback" not in result.err, result.err
    assert not text or result.err.count(text.format(here=here)) == (3 if what == "recipes" else 1), result.err
    assert not [
        path
        for path in here.rglob("*")
        if path.is_file() and path.name != ".lock" and path.suffix not in (".txt", ".log")
    ]


def test_a_home_that_cannot_be_made_costs_what_is_written_and_a_message_each(script):
    result = script(PROGRAM, warnings="always", HOME="/proc/nowhere", XDG_CACHE_HOME="", LOG_LEVEL_ALL="2", **LAZY)
    assert result.out.startswith("200.0 True")
    for text in ("recipe cache /proc/nowhere/.cache/openhpu/recipes", "the log /proc/nowhere/.habana_logs/"):
        assert result.err.count(text) == 1, result.err


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    path, other = tmp_path / "folder" / "file", tmp_path / "other"
    other.write_text("mine")
    with folders.replacing(path) as file:
        file.write("one")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.raises(OSError, match=f"File too large: '{path}'"), contextlib.ExitStack() as full_disk:
        full_disk.callback(resource.setrlimit, resource.RLIMIT_FSIZE, before)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        full_disk.enter_context(folders.replacing(path)).write("two")
    assert path.read_text() == "one"
    assert os.listdir(path.parent) == ["file"]
    path.with_name(f".file.{os.getpid()}").symlink_to(other)  # planted by somebody who knows the number
    with folders.replacing(path, "xb") as file:
        file.write(b"three")
    assert path.read_text() == "three"
    assert other.read_text() == "mine"
    path.unlink()
    for plant in (lambda: path.symlink_to(other), lambda: os.mkfifo(path)):
        plant()
        with pytest.raises(OSError, match=f"not a regular file: '{path}'"), folders.replacing(path):
            pass
        path.unlink()
    assert other.read_text() == "mine"


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
    assert script(code, **variables).out.splitlines() == ["200.0 True", "Read-only file system"]
    kept = [*(tmp_path / "tmp").glob("openhpu-*/.cache/openhpu/recipes/*")]
    assert kept
