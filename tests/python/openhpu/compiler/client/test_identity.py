"""What a recipe was made by is part of its key: a recipe of anything else is another recipe."""

import os
from pathlib import Path

import pytest

from openhpu.compiler.client import identity
from openhpu.compiler.client.identity import recipe_key
from tests.processes import run_python
from tests.python.openhpu.compiler.client.test_service import description


def compiler(path, does="echo 'c++ 1.0'"):
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def made_by(tmp_path, monkeypatch):
    """A recipe's key with a compiler of the test's own."""
    monkeypatch.setenv("CXX", str(compiler(tmp_path / "c++")))
    identity._cxx.cache_clear()
    yield recipe_key(description())
    identity._cxx.cache_clear()


def key():
    identity._cxx.cache_clear()  # as a process that is started then
    return recipe_key(description())


def test_the_same_has_the_same_key(made_by):
    assert key() == made_by


def test_another_version_of_the_compiler(made_by, tmp_path):
    status = (tmp_path / "c++").stat()
    compiler(tmp_path / "c++", "echo 'c++ 1.1'")
    os.utime(tmp_path / "c++", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert key() != made_by


def test_a_link_that_leads_to_another_compiler(made_by, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "g++").symlink_to(tmp_path / "c++")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert key() == made_by  # the file is the same
    compiler(tmp_path / "c++2")
    (tmp_path / "bin" / "g++").unlink()
    (tmp_path / "bin" / "g++").symlink_to(tmp_path / "c++2")
    assert key() != made_by


OURS = "openhpu.compiler.client.identity."
PARTS = {
    OURS + "_machine.recipe_calls": "0",
    OURS + "vector_isa": lambda: "other",
    OURS + "_compiler": lambda: "other",
    **dict.fromkeys(("torch.__version__", "torch.version.git_version", "torch.version.cuda"), "1.0"),
    "torch.__config__.show": lambda: "BLAS_INFO=other",
}
# Another compiler, other options of it, another core, PyTorch or processor.
OTHERS = {
    "compiler": lambda patch, folder: patch.setenv("CXX", str(compiler(folder / "other"))),
    "no compiler": lambda patch, folder: patch.setenv("CXX", str(folder / "none")),
    "build of the compiler": lambda patch, folder: os.utime(folder / "c++", (1, 1)),
    **{
        name: lambda patch, _, name=name: patch.setenv(name, "/a")
        for name in ("CPATH", "LIBRARY_PATH", "AOT_INDUCTOR_DEBUG_COMPILE")
    },
    **{name: lambda patch, _, name=name: patch.setattr(name, PARTS[name]) for name in PARTS},
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_another_has_another_key(made_by, tmp_path, monkeypatch, what):
    OTHERS[what](monkeypatch, tmp_path)
    assert key() != made_by


def test_a_compiler_that_does_not_answer_is_waited_for_only_so_long(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(compiler(tmp_path / "c++", "exec sleep 600")))
    monkeypatch.setattr(identity, "_VERSION_S", 0.2)
    assert "timed out" in identity.cxx()


def test_the_digest_of_the_core_is_that_of_its_sources():
    """Which CMake takes; a change of one of them needs a build."""
    import hashlib

    root = Path(__file__).resolve().parents[5]
    listed = (root / "CMakeLists.txt").read_text().split("set(RECIPE_CALLS ")[1].split(")")[0].split()
    assert "csrc/kernels/SeededOps.cpp" in listed
    digests = "".join(hashlib.sha256((root / path).read_bytes()).hexdigest() for path in listed)
    assert identity._machine.recipe_calls == hashlib.sha256(digests.encode()).hexdigest()


ASK = """
import os
from openhpu.compiler.client import identity
from torch._inductor.cpp_builder import get_cpp_compiler
print(get_cpp_compiler() in ("g++", os.environ.get("CXX")), identity.cxx() + "|" + identity._machine.recipe_calls)
"""


def test_inductor_takes_the_compiler_that_is_named(tmp_path):
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # as the compile process
    same, _, named = run_python(["-c", ASK], tmp_path, environment).out.partition(" ")
    assert (same, named) == ("True", f"{identity.cxx()}|{identity._machine.recipe_calls}")
