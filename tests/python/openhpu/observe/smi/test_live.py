"""What hl-smi shows of processes that run."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from openhpu.observe.smi import modules, state_files

WORK = """
import sys, torch
x = torch.zeros(32 << 20, dtype=torch.uint8, device="hpu")
torch.hpu.synchronize()
print("ready", flush=True)
for line in sys.stdin:
    if line == "compare\\n":
        from openhpu.observe.smi.publisher import _publisher as publisher
        publisher.look()
        print(torch.hpu.memory_usage(), torch.hpu.utilization(), torch.hpu.memory_allocated(), flush=True)
    elif line == "busy\\n":
        from openhpu import _C
        from openhpu.observe.smi.publisher import _publisher as publisher
        publisher._lock.acquire()  # for good: nobody but this thread measures from now on
        publisher._show(0, *_C.device_sample(0))
        a = torch.ones(256, 256, device="hpu")
        for _ in range(100):
            a = (a @ a).clamp(0, 1)
        torch.hpu.synchronize()
        publisher._show(0, *_C.device_sample(0))
        print(torch.hpu.utilization(), flush=True)
"""


LOADED = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}


@pytest.fixture
def folder(environment, tmp_path):
    """Where the processes of a test show themselves, and where this process looks."""
    environment(OPENHPU_SMI_FOLDER=str(tmp_path), OPENHPU_MEMORY_GB="1")
    return tmp_path


@pytest.fixture
def worker(environment_of_smi):
    """Start a process with 32 MiB on a module; gives the process."""
    with contextlib.ExitStack() as stack:

        def start(**variables):
            process = subprocess.Popen(
                [sys.executable, "-c", WORK],
                env=environment_of_smi | {"OPENHPU_MEMORY_GB": "1"} | variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
            return process

        yield start


def processes():
    """Pids by module, of modules on which there are some."""
    return {m.number: [p.pid for p in m.processes] for m in modules.modules() if m.processes}


def ask(process, what):
    process.stdin.write(what + "\n")
    process.stdin.flush()
    return process.stdout.readline()


def test_processes_show_their_memory_and_go_when_they_end(worker, folder):
    first, second = worker(), worker(HABANA_VISIBLE_MODULES="3")
    for process in (first, second):
        percent, busy, allocated = map(int, ask(process, "compare").split())
        (module,) = [m for m in modules.modules() if process.pid in [p.pid for p in m.processes]]
        assert module.total == 1024
        assert module.used == -(-allocated // 2**20) == 32
        assert percent == round(100 * module.used / module.total)
        assert module.percent_busy == busy
    assert processes() == {0: [first.pid], 3: [second.pid]}
    first.stdin.close()
    first.wait(30)
    assert processes() == {3: [second.pid]}
    second.send_signal(signal.SIGKILL)
    second.wait(30)
    assert list(folder.glob("openhpu-smi-*"))  # it had no time to tidy up
    assert [(m.number, m.used) for m in modules.modules()] == [(number, 0) for number in range(8)]


def test_who_holds_which_module(worker, folder):
    locks = {"OPENHPU_MODULE_LOCKS": "1", "XDG_RUNTIME_DIR": str(folder)}
    first, second = worker(**locks), worker(**locks, HABANA_VISIBLE_MODULES="2")
    third, fourth = worker(**locks), worker(**locks)
    first.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
    assert processes() == {0: [first.pid], 1: [third.pid], 2: [second.pid], 3: [fourth.pid]}


def test_each_rank_shows_its_module(worker, folder):
    of_all = {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "HABANA_VISIBLE_MODULES": "1,4,6"}
    ranks = [worker(**of_all, RANK=rank, LOCAL_RANK=rank) for rank in "012"]
    assert processes() == {module: [rank.pid] for module, rank in zip((1, 4, 6), ranks, strict=True)}


def test_utilization_is_that_of_the_device(worker, folder):
    process = worker()
    percent = int(ask(process, "busy"))
    assert 0 < percent <= 100
    assert modules.modules()[0].percent_busy == percent
    assert modules.modules()[0].processes[0].command.startswith(os.path.basename(sys.executable))


def test_files_that_are_none_do_not_count(folder):
    own = state_files.State(os.getpid(), 1, 250, 1 << 20, 2 << 20, "a\x1b[2Jname")
    file = state_files.create(state_files.path_of(folder, 1))
    state_files.write(file, own)
    (found,) = state_files.read_all(folder)
    assert (found.module, found.percent_busy, found.command) == (1, 100, "a?[2Jname")
    good = state_files.path_of(folder, 1).read_bytes()
    (folder / "openhpu-smi-2-1").write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    (folder / "openhpu-smi-3-1").write_bytes(good[:40])
    (folder / "openhpu-smi-4-1").mkdir()
    (folder / "openhpu-smi-5-1").symlink_to(state_files.path_of(folder, 1))
    os.mkfifo(folder / "openhpu-smi-6-1")
    assert state_files.read_all(folder) == [found]
    os.close(file)


def test_a_process_whose_number_was_given_to_another_does_not_count(folder, monkeypatch):
    file = state_files.create(state_files.path_of(folder, 0))
    with monkeypatch.context() as earlier:
        earlier.setattr(state_files, "_start_of", lambda pid: 1)
        state_files.write(file, state_files.State(os.getpid(), 0, 0, 0, 0, "earlier"))
    os.close(file)
    assert state_files.read_all(folder) == []


def test_a_folder_that_cannot_be_written_disturbs_nobody(script):
    result = script(
        "import torch; print(torch.ones(2).to('hpu').sum().item())", **LOADED, OPENHPU_SMI_FOLDER="/no/such"
    )
    assert (result.out, result.err) == ("2.0", "")


@pytest.mark.parametrize("shown", [True, False])
def test_hlmls_object_says_how_much_is_in_use(script, tmp_path, shown):
    code = """
        import os, time, torch
        from openhpu.observe.smi import publisher
        x = torch.zeros(32 << 20, dtype=torch.uint8, device="hpu")
        torch.hpu.synchronize()
        name = torch.hpu.memory._get_hlml_shared_object_name("hpu:0")
        publisher._publisher.look()
        path = "/dev/shm" + name if name and os.path.dirname(name) == "/" else name
        print(path or "none")
        if path:
            version, when, used = memoryview(open(path, "rb").read()).cast("Q")
            print(version, abs(when - time.time()) < 60, used == torch.hpu.memory_allocated() >= 32 << 20)
    """
    path, *said = script(code, **LOADED, OPENHPU_SMI_FOLDER=str(tmp_path) if shown else "off").out.splitlines()
    assert said == ["1 True True"] * shown
    assert (path != "none") == shown
    assert not os.path.exists(path)  # it goes with its process
