"""What is the same in all recipes is compiled once: headers, and the interface of the libraries."""

import os
from pathlib import Path

import pytest
import torch

from openhpu.compiler import toolchain
from tests.python.compiler.recorder import Recorder


def description(number):
    x = torch.ones(5)
    with Recorder() as recorder:
        results = [(x * number).relu() + 1]
    return recorder.description(live=results), recorder.storages


@pytest.fixture
def folder(environment, tmp_path):
    environment(OPENHPU_HEADER_CACHE=str(tmp_path / "headers"))
    return tmp_path / "headers"


def test_a_folder_is_made_for_its_owner_only(folder):
    assert toolchain.header_folder() == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_by_default_it_lies_in_the_users_cache(environment, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert toolchain.header_folder() == tmp_path / "openhpu" / "headers"


def test_a_folder_into_which_others_write_is_not_used(folder):
    folder.mkdir()
    folder.chmod(0o777)
    assert toolchain.header_folder() is None


def test_a_link_and_a_file_are_not_used(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert toolchain.header_folder() is None
    folder.unlink()
    folder.write_text("")
    assert toolchain.header_folder() is None


def test_what_nobody_used_for_a_month_and_what_was_left_behind_goes(folder):
    folder.mkdir(mode=0o700)
    for name, age in (("used", 0), ("unused", 31 * 86400), (".building-now", 0), (".building-left", 7200)):
        (folder / name).mkdir()
        seconds = (folder / name).stat().st_mtime - age
        os.utime(folder / name, (seconds, seconds))
    toolchain._tidy(folder)
    assert {path.name for path in folder.iterdir()} == {"used", ".building-now"}


def test_recipes_share_headers_and_interface(compiled):
    def prepared():
        files = Path(os.environ["OPENHPU_HEADER_CACHE"]).glob("*/*")
        return {path: path.stat().st_mtime_ns for path in files}

    (first, storages), (second, _) = description(2.0), description(3.0)
    (recipe,) = compiled(first)
    before = prepared()
    assert {"header.h", "interface.o"} <= {path.name for path in before}
    (other,) = compiled(second)
    assert prepared() == before
    for made in (recipe, other):
        (wrapper,) = made.directory.glob("*.wrapper.cpp")
        assert "AOTInductorModelContainerRun(" not in wrapper.read_text()
    recipe.check(storages)
