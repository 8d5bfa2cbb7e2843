"""The cache of recipes on disk, with recipes that nobody compiled: it cares about files only."""

import dataclasses
import json
import os
import shutil
import threading
import time
import types
from pathlib import Path

import pytest
import torch

from openhpu.compiler.client import disk_cache
from openhpu.compiler.client.disk_cache import DiskCache, parse_config, sha256
from openhpu.compiler.client.identity import recipe_key, torch_build, vector_isa
from openhpu.compiler.client.manifest import LIBRARY, MANIFEST, PROGRAM, Manifest, ScalarInput, SlotTensor
from openhpu.compiler.program.description import key
from openhpu.compiler.program.sizes import Guard
from tests.python.openhpu.compiler.client import test_service

KEYS = [f"{i:064x}" for i in range(16)]


def manifest(**changes):
    """Of the recipe for test_service's `description()`."""
    place = {"dtype": torch.float32, "sizes": (2, 3), "strides": (3, 1), "offset": 0}
    values = {
        "key": recipe_key(test_service.description()),
        "inputs": (SlotTensor(0, **place),),
        "scalar_inputs": (),
        "variable": (),
        "outputs": (SlotTensor(1, **place),),
        "mutated": (),
        "guards": (),
        "counted": (),
        "overflowing": (),
        "nodes": 1,
        "kernels": 1,
        "external_kernels": {},
        "torch": torch_build(),
        "isa": vector_isa(),
        "threads": 1,
        "files": {},
    }
    return Manifest(**{**values, **changes})


def write_recipe(folder, recipe, library=b"library"):
    """A folder as compile_recipe makes it; the manifest, with the files."""
    folder.mkdir(parents=True)
    (folder / LIBRARY).write_bytes(library)
    (folder / PROGRAM).write_text("program")
    files = {name: sha256(folder / name) for name in (LIBRARY, PROGRAM)}
    recipe = dataclasses.replace(recipe, files=files)
    (folder / MANIFEST).write_text(recipe.to_json())
    return recipe


def recipe(folder, key=KEYS[0], size=100):
    """The folder of a recipe that uses every part of a manifest, and its manifest."""
    made = manifest(
        key=key,
        inputs=(SlotTensor(1, torch.bfloat16, (2, 3), (3, 1), 4),),
        variable=(0, 2),
        mutated=(1,),
        scalar_inputs=(ScalarInput(2, torch.float64),),
        guards=(Guard("n0", "9"),),
        external_kernels={"mm": 2},
    )
    return folder / key, write_recipe(folder / key, made, os.urandom(size))


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "cache" / "recipes")


@pytest.fixture
def filled(cache, tmp_path):
    folder, _ = recipe(tmp_path / "made")
    assert cache.adopt(folder, KEYS[0]) == cache.path / KEYS[0]
    return cache


def names(cache):
    return sorted(path.name for path in cache.path.iterdir())


def test_what_was_adopted_is_found(cache, tmp_path):
    folder, manifest = recipe(tmp_path / "made")
    assert cache.find(KEYS[0]) is None
    cache.adopt(folder, KEYS[0])
    assert cache.find(KEYS[0]) == (manifest, cache.path / KEYS[0])
    assert cache.find(KEYS[1]) is None
    assert cache.path.stat().st_mode & 0o777 == 0o700
    assert names(cache) == [KEYS[0]]
    assert DiskCache(cache.path).find(KEYS[0]) == (manifest, cache.path / KEYS[0])
    cache.adopt(folder, KEYS[0])  # replaces it
    assert cache.find(KEYS[0])
    assert names(cache) == [KEYS[0]]


def change_manifest(folder, **changes):
    data = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**data, **changes}))


def pipe(folder):
    (folder / "recipe.so").unlink()
    os.mkfifo(folder / "recipe.so")


def a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("")


DAMAGES = {
    "cut off": lambda folder: os.truncate(folder / "recipe.so", 50),
    "changed": lambda folder: (folder / "program.py").write_text("import os\n"),
    "a file less": lambda folder: (folder / "program.py").unlink(),
    "a file more": lambda folder: (folder / "recipe.json").write_text("{}"),
    "an empty manifest": lambda folder: (folder / "manifest.json").write_text(""),
    "another format": lambda folder: change_manifest(folder, format=1),
    "no files": lambda folder: change_manifest(folder, files={}),
    "a pipe": pipe,
    "a file": a_file,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_recipe_is_removed_with_a_warning(filled, tmp_path, damage):
    DAMAGES[damage](filled.path / KEYS[0])
    with pytest.warns(RuntimeWarning, match=f"{KEYS[0]} is not used") as warned:
        assert filled.find(KEYS[0]) is None
    assert filled.find(KEYS[0]) is None
    assert len(warned) == 1
    assert not os.path.lexists(filled.path / KEYS[0])
    filled.adopt(recipe(tmp_path / "again")[0], KEYS[0])
    assert filled.find(KEYS[0])


def unusable(path, how):
    if how == "link":
        path.rename(path.parent / "elsewhere")
        path.symlink_to(path.parent / "elsewhere")
    elif how == "file":
        shutil.rmtree(path)
        path.write_text("")
    elif how == "below a file":
        shutil.rmtree(path.parent)
        path.parent.write_text("")
    elif how == "writable":
        path.chmod(0o777)


@pytest.mark.parametrize("how", ["link", "file", "below a file", "writable"])
def test_a_folder_that_is_not_safe_is_not_used(filled, tmp_path, how):
    unusable(filled.path, how)
    with pytest.warns(RuntimeWarning, match="is not used") as warned:
        assert filled.find(KEYS[0]) is None
    assert filled.adopt(recipe(tmp_path / "more", KEYS[1])[0], KEYS[1]) is None
    filled.remember_constants(KEYS[1], [1])
    assert filled.constants(KEYS[1]) == ()
    with filled.lock(KEYS[1]):
        pass
    assert len(warned) == 1
    with pytest.warns(RuntimeWarning, match="is not used"):
        DiskCache(filled.path, delete_on_init=True)


@pytest.mark.parametrize("links", [0, 1])
def test_a_folder_on_the_way_that_others_may_write_to(tmp_path, links):
    """They could put a cache of their own in its place, in which all is as it should be."""
    (open_to_all := tmp_path / "open").mkdir()
    path = open_to_all / "cache"
    if links:
        (path := tmp_path / "link").symlink_to(open_to_all)
        path = path / "cache"
    cache = DiskCache(path)
    cache.adopt(recipe(tmp_path / "made")[0], KEYS[0])
    assert cache.find(KEYS[0])
    for mode, usable in ((0o777, False), (0o1777, True), (0o755, True)):
        open_to_all.chmod(mode)
        again = DiskCache(path)
        if usable:
            assert again.find(KEYS[0])
            continue
        with pytest.warns(RuntimeWarning, match=f"is not used: others may write to {open_to_all}, on the way to it"):
            assert again.find(KEYS[0]) is None
        assert again.adopt(tmp_path / "made" / KEYS[0], KEYS[0]) is None


def test_a_folder_that_is_missing_below_one_that_others_may_write_to_is_not_made(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others may write to"):
        assert DiskCache(tmp_path / "a" / "b").adopt(recipe(tmp_path / "made")[0], KEYS[0]) is None
    assert not (tmp_path / "a").exists()
    assert not disk_cache.own_folder(tmp_path / "a" / "b")


def test_links_that_lead_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.warns(RuntimeWarning, match="too many symbolic links"):
        assert DiskCache(tmp_path / "a" / "cache").find(KEYS[0]) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
def test_a_folder_on_the_way_of_another_user(tmp_path):
    (tmp_path / "theirs" / "cache").mkdir(parents=True, mode=0o755)
    os.chown(tmp_path / "theirs", 12345, 12345)
    with pytest.warns(RuntimeWarning, match="theirs, on the way to it, belongs to user 12345"):
        assert DiskCache(tmp_path / "theirs" / "cache").find(KEYS[0]) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
def test_a_folder_on_the_way_that_a_group_may_write_to(tmp_path, monkeypatch):
    (tmp_path / "shared" / "cache").mkdir(parents=True)
    (tmp_path / "shared").chmod(0o775)
    os.chown(tmp_path / "shared", -1, 12345)
    assert not disk_cache.own_folder(tmp_path / "shared" / "cache")
    # A group of the user's own, as some systems give each: nobody else is in it.
    user = types.SimpleNamespace(pw_name="root", pw_gid=12345)
    monkeypatch.setattr(disk_cache.pwd, "getpwuid", lambda uid: user)
    for members, usable in (([], True), (["root"], True), (["root", "other"], False)):
        group = types.SimpleNamespace(gr_name="root", gr_gid=12345, gr_mem=members)
        monkeypatch.setattr(disk_cache.grp, "getgrgid", lambda gid, group=group: group)
        assert disk_cache.own_folder(tmp_path / "shared" / "cache") is usable


def test_a_folder_that_is_gone_is_made_again(filled, tmp_path):
    shutil.rmtree(filled.path.parent)
    assert filled.find(KEYS[0]) is None
    filled.adopt(recipe(tmp_path / "again")[0], KEYS[0])
    assert filled.find(KEYS[0])


@pytest.mark.parametrize("error", ["No space left on device", "Read-only file system"])
def test_a_full_or_read_only_disk_costs_one_warning(filled, tmp_path, monkeypatch, error):
    def fail(*args, **kwargs):
        raise OSError(error)

    monkeypatch.setattr(disk_cache.shutil, "copyfile", fail)
    folder, _ = recipe(tmp_path / "more", KEYS[1])
    with pytest.warns(RuntimeWarning, match=error) as warned:
        assert filled.adopt(folder, KEYS[1]) is None
        assert filled.adopt(folder, KEYS[1]) is None
    assert len(warned) == 1
    assert filled.find(KEYS[0])
    assert names(filled) == [KEYS[0]]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_recipes_in_a_read_only_folder_are_found(filled, tmp_path):
    filled.path.chmod(0o500)
    try:
        assert filled.find(KEYS[0])
        with pytest.warns(RuntimeWarning, match="can't be kept"):
            assert filled.adopt(recipe(tmp_path / "more", KEYS[1])[0], KEYS[1]) is None
        with filled.lock(KEYS[1]):
            pass
    finally:
        filled.path.chmod(0o700)


def age(cache, key, seconds):
    path = cache.path / key
    path = path / "manifest.json" if path.is_dir() else path
    os.utime(path, (path.stat().st_atime - seconds, path.stat().st_mtime - seconds))


def test_the_least_recently_used_go_first(tmp_path):
    cache = DiskCache(tmp_path / "cache", 10_000)
    for i in range(3):
        cache.adopt(recipe(tmp_path / "made", KEYS[i], 2000)[0], KEYS[i])
        age(cache, KEYS[i], 100 - i)
    cache.remember_constants(KEYS[9], [1])
    age(cache, f"{KEYS[9]}.constants", 1000)
    assert cache.find(KEYS[0])
    cache.adopt(recipe(tmp_path / "made", KEYS[3], 2000)[0], KEYS[3])
    assert names(cache) == [KEYS[0], KEYS[2], KEYS[3]]
    cache.adopt(recipe(tmp_path / "made", KEYS[4], 50_000)[0], KEYS[4])  # larger than all: it alone stays
    assert names(cache) == [KEYS[4]]


def test_what_a_dead_process_left_is_removed(tmp_path):
    cache = DiskCache(tmp_path / "cache", 10_000)
    cache.path.mkdir()
    (cache.path / ".adopted-old").mkdir()
    (cache.path / ".adopted-new").mkdir()
    os.utime(cache.path / ".adopted-old", (1, 1))
    (cache.path / "notes.txt").write_text("not ours")
    cache.adopt(recipe(tmp_path / "made")[0], KEYS[0])
    assert names(cache) == [".adopted-new", KEYS[0], "notes.txt"]


def test_delete_on_init_removes_recipes_only(filled):
    (filled.path / "notes.txt").write_text("not ours")
    filled.remember_constants(KEYS[1], [1])
    assert names(DiskCache(filled.path, delete_on_init=True)) == ["notes.txt"]


def test_constants_are_remembered(cache):
    assert cache.constants(KEYS[0]) == ()
    cache.remember_constants(KEYS[0], [3, 1])
    assert cache.constants(KEYS[0]) == (1, 3)
    for nonsense in ("", "3", "[true]", "[-1]", '["1"]'):
        (cache.path / f"{KEYS[0]}.constants").write_text(nonsense)
        assert cache.constants(KEYS[0]) == ()
        assert not (cache.path / f"{KEYS[0]}.constants").exists()


def test_a_lock_that_another_holds_keeps_no_other_recipe_waiting(cache, monkeypatch):
    """A cache of its own stands for another process: locks are those of open files."""
    monkeypatch.setattr(disk_cache, "_LOCK_S", 600)
    assert KEYS[0][:2] == KEYS[1][:2]
    done = []

    def lock(key):
        with DiskCache(cache.path).lock(key):
            done.append(key)

    threads = [threading.Thread(target=lock, args=(key,), daemon=True) for key in (KEYS[0], KEYS[1])]
    with cache.lock(KEYS[1]):
        for thread in threads:
            thread.start()
        threads[0].join(20)
        assert done == [KEYS[0]]
    threads[1].join(20)
    assert done == [KEYS[0], KEYS[1]]


def test_a_lock_is_waited_for_only_so_long(cache, monkeypatch):
    monkeypatch.setattr(disk_cache, "_LOCK_S", 0.2)
    with cache.lock(KEYS[1]):
        begin = time.monotonic()
        with DiskCache(cache.path).lock(KEYS[1]):
            assert time.monotonic() - begin >= 0.2


def test_configuration(monkeypatch):
    megabyte = 2**20
    assert parse_config("/a/b,true,5") == (Path("/a/b"), 5 * megabyte, True)
    assert parse_config("/a/b") == (Path("/a/b"), 1024 * megabyte, False)
    assert parse_config(" /a/b , False ,") == (Path("/a/b"), 1024 * megabyte, False)
    assert parse_config("a")[0] == Path.cwd() / "a"
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert parse_config("~/a")[0] == Path("/home/someone/a")
    assert parse_config("")[0] == Path("/home/someone/.cache/openhpu/recipes")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert parse_config(",1")[0] == Path("/caches/openhpu/recipes")
    wrong = {"a,b,c,d": "4 parts", "a,yes": "true or false"}
    wrong |= {f"a,true,{size}": "whole number" for size in ("1.5", "-1", "0", "²", "MB")}
    for text, what in wrong.items():
        with pytest.raises(ValueError, match=what):
            parse_config(text)


def description(sequence, device="hpu", **changes):
    place = (0, torch.float32, sequence((2, 3)), sequence((3, 1)), 0)
    node = {
        "op": "aten::add.Tensor",
        "args": sequence(
            [("tensor", *place, 0), ("scalar", 0), ("const", torch.device(device)), ("list", sequence([]))]
        ),
        "outputs": sequence([("fresh", 1, *place[1:])]),
        "site": 1,
    }
    slots = [{"kind": "input", "nbytes": 24}, {"kind": "fresh", "nbytes": 24}]
    given = {"slots": slots, "nodes": [node], "live": sequence([1]), "scalars": [1.5], "variable": [True], "threads": 1}
    return {**given, **changes}


def test_keys():
    base = key(description(tuple))
    sizes = lambda items: torch.Size(items) if all(isinstance(i, int) for i in items) else tuple(items)  # noqa: E731
    assert base == key(description(list)) == key(description(sizes)) == key(description(tuple, "hpu:0"))
    assert base == key(description(tuple, scalars=[2.5], variable=(1,), sites={1: "a.py:3"}, scalar_words=[(0,)]))
    for change in ({"scalars": [1]}, {"variable": [False]}, {"threads": 2}, {"live": []}, {"slots": []}):
        assert base != key(description(tuple, **change))
    constants = [key(description(tuple, scalars=[value], variable=[False])) for value in (1, 1.0, True, 0.0, -0.0)]
    assert len(set(constants)) == 5
