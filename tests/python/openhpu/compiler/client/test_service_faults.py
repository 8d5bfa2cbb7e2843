"""A compile process that dies, hangs or answers nonsense, and a disk that is full: the request fails, with a reason,
and the service goes on."""

import builtins
import dataclasses
import errno
import io
import os
import pickle
import re
import shutil
import tempfile
import threading
import warnings
from pathlib import Path

import pytest
import torch

from openhpu.compiler import server
from openhpu.compiler.client import disk_cache, service as services
from openhpu.compiler.client.disk_cache import DiskCache
from openhpu.compiler.client.manifest import LIBRARY, MANIFEST, SlotTensor, misfit
from openhpu.compiler.client.service import Service
from openhpu.compiler.program.regions import NODES, Call
from tests.python.openhpu.compiler.client.test_disk_cache import manifest, write_recipe
from tests.python.openhpu.compiler.client.test_service import PATIENCE_S, Watched, description

pytestmark = pytest.mark.filterwarnings("ignore:a note")

FAULTS = {
    "exit": "ended with exit code 7: out of ideas",
    "hang": "did not answer within 5 s.*OPENHPU_COMPILE_DEADLINE",
    "stop": "did not answer within 5 s",
    "half": "did not answer within 5 s",
    "deaf": "did not answer within 5 s",
    "endless": "answered nonsense .*bad message length",
    "no pickle": "answered nonsense",
    "too few": "answered nonsense",
    "wrong types": "answered nonsense",
    "wrong notes": "answered nonsense",
    "twice": "answered nonsense",
    "no library": "answered nonsense .*has no recipe.so",
    "misfit": "answered nonsense .*does not fit the graph",
}


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """`fake(fault)`: the compile process is one that misbehaves with its first job; without a fault, with none."""

    def start(fault=None):
        if not fault:
            (tmp_path / "done").touch()
        (tmp_path / "manifest").write_bytes(pickle.dumps(manifest(outputs=())))
        monkeypatch.setenv("FAKE", fault or "")
        monkeypatch.setenv("FAKE_DONE", str(tmp_path / "done"))
        monkeypatch.setenv("FAKE_MANIFEST", str(tmp_path / "manifest"))
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[5]))
        monkeypatch.setattr("openhpu.compiler.server.__name__", "tests.python.openhpu.compiler.fake_server")

    return start


@pytest.mark.parametrize("fault", FAULTS)
def test_a_process_that_misbehaves_fails_its_request_and_the_next_starts_another(fake, tmp_path, fault):
    fake(fault)
    service = Watched(DiskCache(tmp_path / "cache"), deadline=5.0)
    if fault not in ("hang", "stop", "half", "deaf"):
        service._deadline = None
    # Larger than what the system takes from a process for one that does not read.
    big = description(sites={1: "x" * 2**22})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        service.ask(1, big)
        service._deadline = None
        service.ask(2, description(2.5), wait=False)
        service.ask(3, description(3.5))
    service.close()
    assert not service.recipes
    told = service.failed.pop(1)
    assert re.search(FAULTS[fault], told), told
    assert service.failed == {2: "as it should", 3: "as it should"}
    assert [str(warning.message) for warning in caught] == ["a note"]  # once
    assert not service._work.exists()


def served(requests, **options):
    """The order in which requests (identity, operators) are answered; the first one waits until all are there."""
    service = Watched(None, **options)
    held = threading.Event()
    order = []

    def failed(identity, _):
        held.wait(PATIENCE_S)
        order.append(identity)

    for identity, operators in requests:
        described = description(float(identity))
        described["nodes"] = described["nodes"] * operators
        service.request(identity, described, None, failed)
    held.set()
    assert service.wait_all(PATIENCE_S)
    service.close()
    return order


def test_what_is_waited_for_comes_first(fake):
    fake()
    order = served([(identity, 1) for identity in range(1, 6)], urgent=lambda: [4, 5])
    assert order.index(4) <= 1, order
    assert order.index(5) <= 2, order
    assert sorted(order) == [1, 2, 3, 4, 5], order


def test_the_largest_graph_comes_first(fake):
    fake()
    order = served([(1, 9), (2, 1), (3, 3), (4, 2)])
    order.remove(1)  # it holds the service up until all others are there
    assert order == [3, 4, 2]


def test_only_what_nobody_waits_for_is_compiled_idly(fake, monkeypatch):
    fake()
    sent, hurry = [], []
    service = Watched(None, idle=True, hurry=lambda: bool(hurry))
    may_wait = service._may_wait

    def noted():
        sent.append(may_wait())
        return sent[-1]

    monkeypatch.setattr(service, "_may_wait", noted)
    service.ask(1)
    hurry.append(True)
    service.ask(2, description(2.5))
    service.close()
    assert sent == [True, True, False]  # the imports, and two jobs


def test_the_thread_survives_whatever_happens(fake, monkeypatch):
    fake()
    reports = []
    monkeypatch.setattr(threading, "excepthook", reports.append)
    service = Watched(None)
    service.request(1, description(), None, lambda *_: exec("raise SystemExit"))
    assert service.wait_all(PATIENCE_S)
    turn = service._received

    def broken(most):
        service._received = turn
        raise MemoryError("no memory")

    service._received = broken
    service.ask(2)
    service.ask(3)
    service.close()
    assert service.failed == {2: "MemoryError: no memory", 3: "as it should"}
    assert [report.exc_type for report in reports] == [SystemExit, MemoryError]


def test_a_thread_that_cannot_be_started_is_no_open_request(monkeypatch):
    service = Watched(None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda _: exec('raise RuntimeError("can\'t start new thread")'))
        with pytest.raises(RuntimeError, match="can't start"):
            service.ask(1, {"nonsense": 1})
    assert service.wait_all(0)
    service.ask(2, {"nonsense": 1})
    assert list(service.failed) == [2]
    service.close()


def of_region(*call):
    """The recipe for `description()` as one call of a region."""
    return {"inputs": (), "outputs": (), "regions": (manifest(),), "calls": (Call(*call),)}


MISFITS = {
    "another slot": {"inputs": (SlotTensor(2, torch.float32, (2, 3), (3, 1), 0),)},
    "a negative slot": {"inputs": (SlotTensor(-1, torch.float32, (2, 3), (3, 1), 0),)},
    "no slot": {"inputs": ("slot",)},
    "no dtype": {"inputs": (SlotTensor(0, "float32", (2, 3), (3, 1), 0),)},
    "beyond the slot": {"inputs": (SlotTensor(0, torch.float32, (2, 4), (4, 1), 0),)},
    "before the slot": {"inputs": (SlotTensor(0, torch.float32, (2, 3), (3, 1), -1),)},
    "unequal lengths": {"inputs": (SlotTensor(0, torch.float32, (2, 3), (1,), 0),)},
    "an unknown symbol": {"inputs": (SlotTensor(0, torch.float32, ("n0", 3), (3, 1), 0),)},
    "nothing returned": {"outputs": ()},
    "an input returned": {"outputs": (SlotTensor(0, torch.float32, (2, 3), (3, 1), 0),)},
    "returned twice": {"outputs": 2 * (SlotTensor(1, torch.float32, (2, 3), (3, 1), 0),)},
    "an unknown number": {"variable": (1,)},
    "a constant number": {"variable": (0,)},
    "other threads": {"threads": 2},
    "no guard": {"guards": (("n0", "2"),)},
    "no list": {"inputs": None},
    "no counts": {"external_kernels": {"mm": "two"}},
    "calls without regions": {"calls": (Call(0, (0, 1), (), 0),)},
    "no such region": of_region(1, (0, 1), (), 0),
    "a region's other slot": of_region(0, (0, 2), (), 0),
    "a slot twice": of_region(0, (1, 1), (), 0),
    "too few slots": of_region(0, (0,), (), 0),
    "a region's unknown number": of_region(0, (0, 1), (1,), 0),
    "an input as a result": of_region(0, (1, 0), (), 0),
    "a later node": of_region(0, (0, 1), (), 1),
    "a call of nodes with another slot": of_region(NODES, (0, 2), (), 0),
    "a region for other threads": of_region(0, (0, 1), (), 0) | {"regions": (manifest(threads=2),)},
}


def test_the_right_manifest_fits():
    assert misfit(manifest(), description()) is None
    assert misfit(manifest(**of_region(0, (0, 1), (), 0)), description()) is None
    sized = description(
        slots=[{"kind": "input", "nbytes": "24*n0"}, {"kind": "fresh", "nbytes": "24*n0"}], symbols={"n0": {"hint": 2}}
    )
    place = SlotTensor(0, torch.float32, ("2*n0", 3), (3, 1), 0)
    fits = manifest(inputs=(place,), outputs=(dataclasses.replace(place, slot=1),), guards=(("2", "3*n0-1"),))
    assert misfit(fits, sized) is None


@pytest.mark.parametrize("change", MISFITS)
def test_a_manifest_that_does_not_fit_is_no_answer_and_no_cached_recipe(tmp_path, change):
    wrong = manifest(**MISFITS[change])
    assert misfit(wrong, description())
    if change in ("no slot", "no dtype", "no list"):
        return  # cannot be written either
    write_recipe(tmp_path / "made", wrong)
    said = []
    cache = DiskCache(tmp_path / "cache", warn=said.append)
    assert cache.adopt(tmp_path / "made", wrong.key)
    assert disk_cache.find([cache], description(), wrong.key) is None
    assert len(said) == 1
    assert "is not used" in said[0]
    assert not (tmp_path / "cache" / wrong.key).exists()


class FullDisk:
    """From the n-th on, or only the n-th, thing that takes room below `folder` fails: files and folders made, renamed,
    and written."""

    def __init__(self, monkeypatch, folder, number, for_ever):
        self.folder = str(folder)
        self.left = number
        self.for_ever = for_ever
        self.hits = 0
        for module, name, place in (
            (os, "mkdir", 0),
            (os, "rename", 1),
            (os, "replace", 1),
            (os, "open", 0),
            (builtins, "open", 0),
            (io, "open", 0),
        ):
            monkeypatch.setattr(module, name, self.failing(getattr(module, name), place))

    def failing(self, function, place):
        def call(*arguments, **keywords):
            path = arguments[place]
            writes = function.__name__ != "open" or self.writes(arguments, keywords)
            if writes and isinstance(path, str | Path) and str(path).startswith(self.folder):
                self.take(path)
                result = function(*arguments, **keywords)
                return Written(result, self) if isinstance(result, io.IOBase) else result
            return function(*arguments, **keywords)

        return call

    @staticmethod
    def writes(arguments, keywords):
        mode = arguments[1] if len(arguments) > 1 else keywords.get("mode", "r")
        return mode & os.O_CREAT if isinstance(mode, int) else not set("wax").isdisjoint(mode)

    def take(self, path):
        self.left -= 1
        if self.left == 0 or (self.left < 0 and self.for_ever):
            self.hits += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


class Written:
    """A file whose writing may fail."""

    def __init__(self, file, disk):
        self._file = file
        self._disk = disk

    def write(self, data):
        self._disk.take(self._file.name)
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *error):
        return self._file.__exit__(*error)

    def __iter__(self):
        return iter(self._file)


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "from then on"])
def test_a_full_disk_of_the_service_at_each_write(fake, tmp_path, monkeypatch, for_ever):
    """Each graph is answered, and there is no warning but of the cache."""
    fake()
    for number in range(1, 100):
        folder = tmp_path / f"disk{number}"
        folder.mkdir()
        with warnings.catch_warnings(record=True) as caught, monkeypatch.context() as patch:
            warnings.simplefilter("always")
            patch.setattr(tempfile, "tempdir", str(folder))
            disk = FullDisk(patch, folder, number, for_ever)
            service = Watched(DiskCache(folder / "cache"))
            for identity in range(3):
                service.ask(identity, description(float(identity)))
            service.close()
        assert not service.recipes
        assert service.failed.keys() == {0, 1, 2}
        for message in service.failed.values():
            assert message == "as it should" or "No space left on device" in message
        assert len({str(warning.message) for warning in caught}) == len(caught)
        if not disk.hits:
            assert number > 2
            return
        if not for_ever:
            assert service.failed[2] == "as it should"
    raise AssertionError("it never succeeded")


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "from then on"])
def test_a_full_disk_of_the_compile_process_at_each_write(tmp_path, monkeypatch, for_ever):
    """Either an error that says so or a recipe that is whole; and one warning for a cache that takes no recipes."""
    recipe = manifest()

    def compile_recipe(_, directory, *, key):  # appears at once and complete, as the real one's
        work = directory.parent / "work in progress"
        try:
            write_recipe(work, recipe)
            directory.mkdir(parents=True, exist_ok=True)
            disk_cache.publish(work, directory / recipe.key)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return recipe

    monkeypatch.setattr("openhpu.compiler.recipe.compile_recipe", compile_recipe)
    for number in range(1, 100):
        folder = tmp_path / f"disk{number}"
        caches = [(folder / "cache", 10**6), (folder / "work" / "recipes", None)]
        (folder / "work").mkdir(parents=True)
        with monkeypatch.context() as patch:
            disk = FullDisk(patch, folder, number, for_ever)
            job = server.Job(description(), recipe.key, caches)
            answer = server._answer(job, folder / "work")
        assert len(answer.notes) <= 1 or for_ever
        if answer.folder is None:
            assert "No space left on device" in answer.error
        else:
            assert (answer.folder / LIBRARY).read_text() == "library"
            assert (answer.folder / MANIFEST).exists()
        for path, limit in caches:  # what is there is whole
            said = []
            DiskCache(path, limit, warn=said.append).find(recipe.key)
            assert said == []
        again = server._answer(job, folder / "work")
        assert again.folder is not None, again
        assert again.error == "", again
        if not disk.hits:
            assert number > 10
            assert answer.folder == folder / "cache" / recipe.key
            return
    raise AssertionError("it never succeeded")


def test_a_process_that_cannot_be_ended_is_left(fake, monkeypatch):
    """A process in the middle of a system call that does not return stays, whatever signal it gets."""
    fake("hang")
    monkeypatch.setattr(services, "_DIE_S", 0.1)
    service = Watched(None, deadline=0.2)
    killed = []
    monkeypatch.setattr(Service, "_kill", staticmethod(killed.append))
    service.ask(1)
    monkeypatch.undo()
    for process in killed:
        process.kill()
        process.wait()
    service.close()
    assert "did not answer within 0.2 s" in service.failed[1]
