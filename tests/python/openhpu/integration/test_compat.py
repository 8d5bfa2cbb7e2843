import importlib
import importlib.machinery

import pytest
import torch

import openhpu
from openhpu import _C
from openhpu.integration import compat

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]


@pytest.fixture
def cores(tmp_path, monkeypatch):
    """A package with the cores that a test puts there."""
    monkeypatch.setattr(compat, "CORES", tmp_path)

    def put(release, suffix=SUFFIX):
        (tmp_path / release).mkdir(exist_ok=True)
        (tmp_path / release / f"_C{suffix}").touch()

    return put


@pytest.mark.parametrize(("version", "release"), [("2.13.0+cpu", "2.13"), ("2.15.0", "2.15"), ("2.9.1a0+git1", "2.9")])
def test_a_core_belongs_to_a_minor_release(version, release):
    assert compat.release(version) == release


def test_the_releases_that_were_built_for_this_python(cores):
    assert compat.built() == []
    for release in ("2.13", "2.9"):
        cores(release)
    cores("2.14", ".cpython-39-riscv64-linux-gnu.so")
    assert compat.built() == ["2.9", "2.13"]


def test_a_package_of_another_python_says_so(cores):
    assert compat.other_python() is None  # nothing was built: that is another message
    cores("2.13", ".cpython-39-riscv64-linux-gnu.so")
    assert "it was installed for cpython-39-riscv64-linux-gnu, and this is cpython-3" in compat.other_python()
    cores("2.13")
    assert compat.other_python() is None


def test_the_core_is_of_the_pytorch_that_is_there():
    assert compat.core(torch.__version__) is _C
    assert f"cores/{compat.release(torch.__version__)}/_C" in _C.__file__
    assert _C.__name__ == "openhpu._C"
    assert openhpu._C is _C


def test_a_core_of_a_newer_system_says_which_library_is_too_old():
    def error(name, version):
        return ImportError(f"/lib/x86_64-linux-gnu/lib.so: version `{name}_{version}' not found (required by _C.so)")

    assert "needs a newer GNU C library than this system has" in compat.older_library(error("GLIBC", "2.38"))
    assert "version `GLIBCXX_3.4.32' not found" in compat.older_library(error("GLIBCXX", "3.4.32"))
    assert "needs a newer C++ library of GCC (libstdc++)" in compat.older_library(error("CXXABI", "1.3.15"))
    assert compat.older_library(ImportError("_C.so: undefined symbol: _ZN2at4_ops")) is None


@pytest.mark.parametrize(("number", "name"), [(183, "aarch64"), (62, "x86_64"), (243, "the ELF machine 243")])
def test_a_core_of_another_processor_is_named(tmp_path, monkeypatch, number, name):
    path = tmp_path / f"_C{SUFFIX}"
    path.write_bytes(b"\x7fELF\2\1\1".ljust(18, b"\0") + number.to_bytes(46, "little"))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError) as caught:
        importlib.import_module("_C")
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr(compat.platform, "machine", lambda machine=machine: machine)
        text = f"its compiled core {path} is for {name}, and this Python runs on {machine}"
        assert (text in (compat.unloadable(caught.value) or "")) == (name != machine)
    assert compat.unloadable(ImportError("no file")) is None
