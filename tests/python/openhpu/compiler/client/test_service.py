"""The service and its process. A compilation takes seconds and a new process as many again, so there are few."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

import openhpu
from openhpu.compiler.client.disk_cache import DiskCache
from openhpu.compiler.client.identity import recipe_key
from openhpu.compiler.client.service import Service
from tests.python.commands.conftest import lives, until
from tests.python.openhpu.compiler.recorder import Recorder

PATIENCE_S = 300
PLACE = (torch.float32, (2, 3), (3, 1), 0)


def description(number=1.5, op="aten::mul.Tensor", **changes):
    """A graph that needs no recorder: a tensor times a number."""
    node = {
        "op": op,
        "args": [("tensor", 0, *PLACE, 0), ("cpu_scalar", 0, torch.float64, True)],
        "outputs": [("fresh", 1, *PLACE)],
        "site": 0,
    }
    slots = [{"kind": "input", "nbytes": 24}, {"kind": "fresh", "nbytes": 24}]
    given = {"slots": slots, "nodes": [node], "live": [1], "scalars": [number], "variable": [False], "threads": 1}
    return {**given, **changes}


class Watched(Service):
    """The service, its answers, and how many of its requests have none yet."""

    def __init__(self, *arguments, **options):
        self.open = 0
        self.recipes = {}
        self.failed = {}
        super().__init__(*arguments, **options)

    def ask(self, identity, described=None, wait=True):
        """Request a recipe, and wait until it is answered."""
        self.request(identity, described or description(), self._on_ready, self._on_failed)
        assert not wait or self.wait_all(PATIENCE_S)

    def _on_ready(self, identity, manifest, folder):
        self.recipes[identity] = manifest, folder

    def _on_failed(self, identity, message):
        self.failed[identity] = message

    def _look_up(self, request):
        with self._changed:
            self.open += 1
        super()._look_up(request)

    def _call(self, *arguments):
        super()._call(*arguments)
        with self._changed:
            self.open -= 1

    def wait_all(self, timeout):
        """Until each is answered, and its callback has returned."""
        end = time.monotonic() + timeout
        while self.open and not self._closed and time.monotonic() < end:
            time.sleep(0.01)
        return not self.open


@pytest.fixture
def service(tmp_path):
    service = Watched(DiskCache(tmp_path / "cache"), idle=True)
    yield service
    service.close()
    assert service._thread is None or not service._thread.is_alive()


def wait_for(condition):
    assert until(condition, PATIENCE_S)


def run(folder, inputs):
    return torch._C._aoti.AOTIModelContainerRunnerCpu(str(folder / "recipe.so"), 1).run(inputs)


def test_a_killed_process_fails_its_request_and_the_next_starts_another(service, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(Path(openhpu.__file__).parents[1])])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    service.ask(1, wait=False)
    wait_for(lambda: service._greeted)
    first = service._process.pid
    os.kill(first, signal.SIGKILL)
    assert service.wait_all(PATIENCE_S)
    assert "killed by signal 9 (Killed)" in service.failed.pop(1)

    x = torch.rand(4, 4)
    with Recorder() as recorder:  # two numbers may vary, but Dropout's cannot
        result = torch.native_dropout(x * 0.75, 0.25, False)[0]
    varied = recorder.description(live=[result], threads=1, variable=lambda value: value in (0.75, 0.25))
    assert varied["scalars"] == [0.75, 0.25]
    service.ask(2, varied, wait=False)
    service.ask(3, description(op="aten::no_such_thing"), wait=False)
    wait_for(lambda: service._process and service._process.pid != first)
    second = service._process.pid
    wait_for(lambda: 2 in service.recipes or service.failed)
    assert os.sched_getscheduler(second) == os.SCHED_OTHER  # only a thread of it is idle
    assert service.wait_all(PATIENCE_S)
    assert service.failed == {3: "aten::no_such_thing: unknown operator"}
    manifest, folder = service.recipes[2]
    assert folder == tmp_path / "cache" / manifest.key
    assert (manifest.variable, [s.index for s in manifest.scalar_inputs]) == ((0,), [0])
    torch.testing.assert_close(run(folder, [x, torch.tensor(3.0, dtype=torch.float64)]), [x * 3])

    # Another service finds it without a process, also by what had to be constant, and starts none ahead.
    service.close()
    assert not lives(second)
    other = Watched(DiskCache(tmp_path / "cache"))
    started = time.monotonic()
    other.ahead()
    other.ask(4, varied)
    assert time.monotonic() - started < 5
    assert other.recipes[4] == service.recipes[2]
    assert other._process is None
    other.close()


def test_without_recipes_the_process_is_started_ahead(service):
    service.ahead()
    service.ahead()
    wait_for(lambda: service._process)
    first = service._process.pid
    service.ask(1, description(op="aten::no_such_thing"))
    assert service.failed
    assert service._process.pid == first


def test_a_cache_that_cannot_be_used_costs_a_warning(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    threads, reports = [], []
    monkeypatch.setattr(threading, "excepthook", reports.append)

    class Raising(Watched):
        def _on_ready(self, *arguments):
            super()._on_ready(*arguments)
            threads.append(threading.current_thread().name)
            raise KeyError("an error in a callback")

    with pytest.warns(RuntimeWarning, match="file/cache is not used") as warned:
        service = Raising(DiskCache(tmp_path / "file" / "cache"))
        service.ask(1)
        service.ask(2)
    assert not service.failed
    assert service.recipes[1] == service.recipes[2]
    assert [type(report.exc_value) for report in reports] == [KeyError, KeyError]
    assert threads == ["openhpu-compile", threading.current_thread().name]
    assert len(warned) == 1
    manifest, folder = service.recipes[1]
    assert folder.is_relative_to(service._work)
    x = torch.rand(2, 3)
    torch.testing.assert_close(run(folder, [x]), [x * 1.5])
    assert manifest.key == recipe_key(description())
    service.close()
    assert not service._work.exists()


def test_what_cannot_be_sent_fails(service):
    service.ask(1, description(sites={1: lambda: None}))
    service.ask(2, {"nonsense": 1})
    assert "local object 'test_what_cannot_be_sent_fails.<locals>.<lambda>'" in service.failed[1]
    assert "KeyError" in service.failed[2]
    assert service._process is None


def test_a_process_that_does_not_start(service, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    service.ask(1)
    assert "/no/such/python" in service.failed[1]
    monkeypatch.undo()
    monkeypatch.setattr("openhpu.compiler.server.__name__", "openhpu.compiler.no_such_module")
    service.ask(2)
    assert "ended with exit code 1" in service.failed[2]
    assert "no_such_module" in service.failed[2]


def test_close_drops_what_is_open(service):
    for identity in range(3):
        service.ask(identity, description(identity), wait=False)
    wait_for(lambda: service._current)
    assert not service.wait_all(0)
    process, work = service._process, service._work
    started = time.monotonic()
    service.close()
    service.close()
    assert time.monotonic() - started < 5
    assert process.poll() == -signal.SIGKILL
    assert not work.exists()
    assert not service.wait_all(PATIENCE_S)
    assert not service.recipes
    assert not service.failed
    with pytest.raises(RuntimeError, match="closed"):
        service.ask(9)


def test_close_in_a_callback_and_without_requests(service):
    service.request(1, {}, None, lambda *_: service.close())
    wait_for(lambda: service._closed and not service._thread.is_alive())
    Service().close()


SCRIPT = """
import os, sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from openhpu.compiler.client.disk_cache import DiskCache
from tests.python.openhpu.compiler.client.test_service import PATIENCE_S, Watched, description

service = Watched(DiskCache(Path(sys.argv[1])))
service.ask(1, description(2.5), wait=False)
while not service._current and not service.recipes:
    time.sleep(0.01)
print(service._process.pid if service._process else 0, service._work, time.time(), flush=True)
"""


@pytest.fixture
def start(tmp_path):
    """Start the script above with an ending of its own; returns the process."""
    started = []

    def start(ending):
        code = SCRIPT.format(tests=str(Path(__file__).parents[5])) + textwrap.dedent(ending)
        ours = {"PYTHONPATH": str(Path(openhpu.__file__).parents[1]), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        command = [sys.executable, "-c", code, str(tmp_path / "cache")]
        process = subprocess.Popen(
            command, env=os.environ | ours, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "raise SystemExit(0)",
        "os._exit(0)",
        "os.kill(os.getpid(), 9)",
        "if os.fork() == 0: time.sleep(15)\nos._exit(0)",
    ],
    ids=["end", "exit", "_exit", "kill", "forked"],
)
def test_a_script_that_asks_and_ends(start, ending):
    process = start(ending)
    server, work, asked = process.stdout.readline().split()
    process.wait(PATIENCE_S)
    assert time.time() - float(asked) < 10
    wait_for(lambda: not lives(server))
    if ending != "os.kill(os.getpid(), 9)":
        assert process.returncode == 0
    if not ending.startswith(("os", "if")):
        assert not Path(work).exists()
        assert process.stderr.read() == ""


def test_a_forked_child_has_no_service(start):
    process = start("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, from Python 3.12 on
        child = os.fork()
        if child == 0:
            for use in (service.ahead, lambda: service.request(2, {}, print, print)):
                try:
                    use()
                except RuntimeError as error:
                    print(error, flush=True)
            service.close()
            service = Watched()
            service.request(3, {}, print, lambda *_: print("failed", flush=True))
            assert service.wait_all(PATIENCE_S)
            sys.exit()
        os.waitpid(child, 0)
        print(service._process.poll(), service._work.exists(), service._closed)
    """)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert err == ""
    first, second, third, last = out.splitlines()[1:]
    assert first == second
    assert "a forked child needs a service of its own" in first
    assert (third, last) == ("failed", "None True False")


def test_two_processes_make_a_recipe_once(start, tmp_path):
    ending = """
        assert service.wait_all(PATIENCE_S), service.failed
        assert not service.failed, service.failed
        manifest, folder = service.recipes[1]
        print((folder / "recipe.so").stat().st_ino, folder)
    """
    both = [start(ending), start(ending)]
    results = [process.communicate(timeout=PATIENCE_S) for process in both]
    assert [err for _, err in results] == ["", ""]
    assert len({out.splitlines()[-1] for out, _ in results}) == 1
    manifest = json.loads((tmp_path / "cache" / recipe_key(description(2.5)) / "manifest.json").read_text())
    assert manifest["nodes"] == 1
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [".lock", manifest["key"]]
