"""What is the same in all recipes is compiled once: headers, and, with the core, the interface of the libraries."""

import os
import re
from pathlib import Path

import pytest
import torch

from openhpu.compiler.inductor import inductor, toolchain
from tests.python.openhpu.compiler.recorder import Recorder


def description(number, operator=torch.relu):
    x = torch.ones(5)
    with Recorder() as recorder:
        results = [operator(x * number) + 1]
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
    assert {"header.h"} <= {path.name for path in before}
    assert not [p for p in before if p.suffix == ".o"]
    (other,) = compiled(second)
    assert prepared() == before
    for made in (recipe, other):
        (wrapper,) = made.directory.glob("*.wrapper.cpp")
        assert "AOTInductorModelContainerRun(" not in wrapper.read_text()
    recipe.check(storages)


def test_what_is_begun_ahead_is_what_the_recipe_takes(compiled, tmp_path):
    from torch._inductor import config

    (recipe,) = compiled(description(4.0)[0])
    taken = set()
    for source in (*recipe.directory.glob("*.wrapper.cpp"), *recipe.directory.glob("*.kernel.cpp")):
        taken |= set(re.findall(r"-include (\S+)", source.read_text().partition("// Compile cmd")[2]))
    begun = set()

    class Begins(toolchain.Prepared):
        def header(self, *args, **command):
            begun.add(super().header(*args, **command))

    identity = torch.fx.symbolic_trace(torch.nn.Identity())
    with config.patch(inductor.options(identity, 1, recipe.directory / "recipe.so")), toolchain.quick(tmp_path):
        Begins(toolchain.header_folder(), None).ahead()  # without a pool: all of it is there
    assert begun == taken
    assert len(taken) == 2


def test_a_header_that_cannot_be_compiled_is_the_recipes_error(folder, monkeypatch, tmp_path):
    from torch._inductor.cpp_builder import CppTorchDeviceOptions
    from torch._inductor.cpu_vec_isa import pick_vec_isa
    from torch._inductor.exc import CppCompileError

    command = {"aot_mode": True, "device_type": "cpu", "vec_isa": pick_vec_isa()}
    (tmp_path / "kernel.cpp").write_text("int one() { return 1; }")
    with pytest.raises(CppCompileError, match="no-such-header"), toolchain.quick(tmp_path) as prepared:
        option = CppTorchDeviceOptions(**command, compile_only=True)
        option.precompiled_header = prepared.header("no-such-header.h", "", **command)
        prepared.builder("kernel", str(tmp_path / "kernel.cpp"), option, output_dir=str(tmp_path)).build()
        option = CppTorchDeviceOptions(**command)
        prepared.builder("recipe", [str(tmp_path / "kernel.o")], option, output_dir=str(tmp_path)).build()
    monkeypatch.setattr(toolchain, "_headers", dict(list(toolchain._headers.items())[-1:]))
    assert toolchain.precompile_behind()  # no error: it is the recipes'
    assert [path.name for path in folder.glob("*/*")] == ["header.h"]
    assert not list(folder.glob(".*"))


def test_headers_are_read_first_and_precompiled_behind(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(toolchain, "_headers", {})
    inductor.ahead(tmp_path / "ahead")
    assert not list(folder.glob("*/*.gch"))
    assert len(list(folder.glob("*/header.h"))) == 2
    while toolchain.precompile_behind():
        pass
    assert len(list(folder.glob("*/*.gch"))) == 2
    inductor.ahead(tmp_path / "again")
    assert not toolchain._headers
    for path in folder.glob("*/header.h"):  # as programs do that clean folders of old files
        path.unlink()
    inductor.ahead(tmp_path / "after a cleaning")
    assert len(list(folder.glob("*/header.h"))) == 2
    assert not toolchain._headers
