"""Which calls open a device: memory and work do, questions do not, and programs that use no hpu never do."""

import fcntl
from textwrap import dedent

import pytest

# All modules of the processes in these tests are taken, and nobody waits for one.
MODULE = "3"
TAKEN = {"OPENHPU_MODULE_LOCKS": "1", "OPENHPU_MODULE_WAIT_S": "0", "HABANA_VISIBLE_MODULES": MODULE}
LOAD = """
import os, sys
import torch, habana_frameworks.torch
from pathlib import Path

def names(folder):
    return sorted(str(path) for path in Path(folder).rglob("*"))

def shared():
    "Files of this process's number. A killed process with the same number may have left some."
    return [str(path) for path in Path("/dev/shm").glob(f"*openhpu*-{os.getpid()}")]

left_before = shared()

def threads():
    return sorted(path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm"))

def ours():
    "What an open device leaves: threads, files that are open, files in shared memory."
    found = [name for name in threads() if name.startswith(("hpu", "openhpu", "pt_autograd"))]
    links = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    found += [link for link in links if "openhpu" in link and link.endswith(".lock")]
    return found + [path for path in shared() if path not in left_before]

def refused():
    try:
        torch.ones(1, device="hpu")
    except RuntimeError as error:
        return "HPU module 3 is in use" in str(error)
"""


@pytest.fixture
def taken(tmp_path):
    """Hold the lock of the one module that `script` may use; the variables of a process that is to meet it."""
    folder = tmp_path / "runtime" / "openhpu"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    with (folder / f"module{MODULE}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield {**TAKEN, "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}


# Expressions and what they give; None: whatever it is. Each is a question to a device that is not open.
QUESTIONS = {
    # torch.hpu
    "h.is_available()": True,
    "h.is_initialized()": False,
    "h._initialized": False,
    "h._lazy_init()": None,
    "h._is_in_bad_fork()": False,
    "h.device_count()": 1,
    "h.current_device()": 0,
    "h.set_device(0)": None,
    "h.device(0).__enter__()": None,
    "h.device_of(torch.ones(1)).__enter__()": None,
    "h.synchronize()": None,
    "h.synchronize('hpu:0')": None,
    "h.get_device_name()": "GAUDI2",
    "h.get_device_capability()": "1.24.1",
    "h.get_device_properties().module": 3,
    "h.get_device_properties().total_memory": 2 << 30,
    "h.can_device_access_peer(0, 0)": False,
    "h.get_arch_list()": None,
    "h.get_gencode_flags()": None,
    "h.is_bf16_supported()": True,
    "h.is_fp16_supported()": True,
    "h.get_amp_supported_dtype()": None,
    "h.memory_stats()['Limit']": 2 << 30,
    "h.memory_stats()['InUse']": 0,
    "set(list(h.memory_stats().values())[1:])": {0},
    "h.memory_allocated()": 0,
    "h.max_memory_allocated()": 0,
    "h.memory_reserved()": 2 << 30,
    "h.max_memory_reserved()": 2 << 30,
    "h.mem_get_info()": (2 << 30, 2 << 30),
    "h.memory_usage()": 0,
    "h.memory_summary()": None,
    "h.reset_peak_memory_stats()": None,
    "h.reset_max_memory_allocated()": None,
    "h.reset_max_memory_cached()": None,
    "h.reset_accumulated_memory_stats()": None,
    "h.empty_cache()": None,
    "h.memory._snapshot()['segments']": [],
    "h.memory._record_memory_history()": None,
    "h.memory._record_memory_history(None)": None,
    "'hlml-openhpu-3-' in h.memory._get_hlml_shared_object_name()": True,
    "h.utilization()": 0,
    "h.get_sync_debug_mode()": 0,
    "h.get_rng_state().numel() > 0": True,
    "h.set_rng_state(h.get_rng_state())": None,
    "h.set_rng_state_all(h.get_rng_state_all())": None,
    "h.manual_seed(3)": None,
    "h.initial_seed()": 3,
    "h.manual_seed_all(4)": None,
    "h.seed() > 0": True,
    "h.seed_all() > 0": True,
    "len(h.default_generators)": 1,
    "torch.Generator('hpu').manual_seed(1).device.type": "hpu",
    "torch.manual_seed(0).device.type": "cpu",
    "torch.seed() > 0": True,
    "torch.random.fork_rng(devices=[0], device_type='hpu').__enter__()": None,
    "h.current_stream().stream_id": 0,
    "h.default_stream().stream_id": 0,
    "h.current_stream().query()": True,
    "h.current_stream().synchronize()": None,
    "h.get_stream_info(h.current_stream())": (0, 0, 15),
    "[h.Stream().stream_id, h.Stream(priority=-1).stream_id, torch.Stream('hpu').stream_id]": [1, 2, 3],
    "h.Stream(stream_id=2, device_index=0).query()": True,
    "h.set_stream(h.Stream(stream_id=2, device_index=0))": None,
    "h.current_stream().id()": 2,
    "h.set_stream(h.default_stream())": None,
    "h.stream(h.Stream()).__enter__()": None,
    "torch.Stream('hpu').__enter__().stream_id": 5,
    "h.set_stream(h.default_stream()) or h.current_stream().stream_id": 0,
    "h.Stream().wait_stream(h.current_stream())": None,
    "h.Event().query()": True,
    "h.Event().synchronize()": None,
    "h.Event().wait()": None,
    "h.Stream().wait_event(h.Event())": None,
    "h.current_stream().record_event().query()": True,
    "event_pair()": True,
    "h.is_current_stream_capturing()": False,
    "h.HPUGraph() is None": False,
    "h.graph(h.HPUGraph()) is None": False,
    "h.wrap_in_hpu_graph(torch.nn.Linear(2, 2)) is None": False,
    "h.wrap_in_hpu_graph_func(len) is None": False,
    "h.is_autocast_hpu_enabled()": False,
    "h.get_autocast_hpu_dtype()": None,
    "h.getDeterministic()": None,
    "h.get_dynamic_shape_status()": None,
    "h.enable_inference_mode()": None,
    "h.disable_inference_mode()": None,
    "h.recompute_sdp_enabled()": None,
    "h.sdp_kernel().__enter__()": None,
    "h.set_rng_ctx('philox') or h.unset_rng_ctx('philox')": None,
    # torch.accelerator
    "a.is_available()": True,
    "a.device_count()": 1,
    "a.current_accelerator().type": "hpu",
    "a.current_device_index()": 0,
    "a.set_device_index(0)": None,
    "a.device_index(0).__enter__()": None,
    "a.current_stream().stream_id": 0,
    "a.set_stream(a.current_stream())": None,
    "a.synchronize()": None,
    "a.get_device_capability()": None,
    "a.memory_allocated()": 0,
    "a.max_memory_allocated()": 0,
    "a.memory_reserved()": None,
    "a.max_memory_reserved()": None,
    "a.memory_stats()": None,
    "a.get_memory_info()": (2 << 30, 2 << 30),
    "a.reset_peak_memory_stats()": None,
    "a.reset_accumulated_memory_stats()": None,
    "a.empty_cache()": None,
    "a.empty_host_cache()": None,
    # what else asks
    "torch.get_device_module().current_device()": 0,
    "torch.ones(3).pin_memory().is_pinned()": True,
    "torch.ones(3).is_pinned()": False,
    "torch.device('hpu').type": "hpu",
    "htcore.mark_step()": None,
    "torch.autocast('hpu').__enter__() is None": False,
    "torch.is_autocast_enabled('hpu')": True,
}

# The names that the table need not have: classes and constants, and what needs a tensor of the device.
NO_QUESTIONS = {
    "init",
    "record_stream",
    "make_graphed_callables",
    "memory_cached",  # deprecated names
    "max_memory_cached",
    "current_device_idx",
    "set_device_idx",
    "deprecated",
    "cache",  # imports of the module
}


@pytest.mark.parametrize("lazy", [False, True])
def test_a_question_opens_no_device(script, taken, lazy):
    code = f"""
import habana_frameworks.torch.core as htcore
h, a = torch.hpu, torch.accelerator
refused_names = {NO_QUESTIONS!r}

def event_pair():
    begin, end = h.Event(enable_timing=True), h.Event(enable_timing=True)
    begin.record()
    end.record()
    return begin.elapsed_time(end) >= 0 and begin.query()

for question, answer in {QUESTIONS!r}.items():
    found = eval(question)
    if answer is not None and found != answer:
        print(question, "gave", found)
    if h.is_initialized() or ours():
        print(question, "opened a device:", ours())
text = " ".join({list(QUESTIONS)!r})
for module in (h, a):
    for name in dir(module):
        public = not name.startswith(("_", "enable_", "disable_", "set"))
        function = type(getattr(module, name)).__name__ == "function"
        if public and function and name not in refused_names and f".{{name}}(" not in text:
            print("the table lacks", name)
print(refused(), h.is_initialized(), h.current_stream().stream_id, ours())
"""
    variables = {**taken, "OPENHPU_MEMORY_GB": "2", "PT_HPU_LAZY_MODE": str(int(lazy)), "OPENHPU_COMPILE": "off"}
    result = script(LOAD + code, warnings="ignore", **variables)
    assert result.out == "True False 0 []", result.out + result.err


PROGRAMS = {
    "torch.compile": """
        torch.set_num_threads(1)
        f = torch.compile(lambda x: (x * 2).relu().sum())
        print(f(torch.ones(5)).item() == 10.0)
    """,
    "backward": """
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
        torch.utils.checkpoint.checkpoint(lambda x: (x * 2).sum(), x, use_reentrant=False).backward()
        torch.utils.checkpoint.checkpoint(lambda x: (x * 2).sum(), x, use_reentrant=True).backward()
        print(x.grad.tolist() == [6.0] * 3)
    """,
    "a backward in a forked child after one in its parent": """
        def grad():
            x = torch.ones(3, requires_grad=True)
            (x * 2).sum().backward()
            return x.grad.tolist() == [2.0] * 3

        grad()
        torch.accelerator.current_stream()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if grad() and not ours() else 1)
        print(os.waitpid(pid, 0)[1] == 0)
    """,
    "a loader with pinned memory": """
        loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=2, num_workers=2, pin_memory=True)
        print(sum(batch.sum().item() for batch in loader) == 28.0)
    """,
    "FSDP on gloo": """
        import torch.distributed as dist
        from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        mesh = dist.init_device_mesh("cpu", (1,))
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
        model(torch.ones(2, 4)).sum().backward()
        older = FullyShardedDataParallel(torch.nn.Linear(4, 1), device_id=torch.device("cpu"))
        older(torch.ones(2, 4)).sum().backward()
        parallel = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        parallel(torch.ones(2, 4)).sum().backward()
        dist.destroy_process_group()
        print(model[0].weight.grad is not None and parallel.module.weight.grad is not None)
    """,
    "the profiler": """
        with torch.profiler.profile(profile_memory=True) as profile:
            torch.ones(3).sum()
        print("aten::sum" in profile.key_averages().table())
    """,
    "autocast": """
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.nn.Linear(3, 3)(torch.ones(2, 3))
        print(y.dtype == torch.bfloat16)
    """,
    "copies": """
        import copy, io, pickle
        model = torch.nn.LSTM(3, 3)
        copied = pickle.loads(pickle.dumps(copy.deepcopy(model)))
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        print(len(torch.load(file)) == len(copied.state_dict()))
    """,
    "processes": """
        torch.accelerator.current_stream()
        torch.multiprocessing.set_start_method("fork")
        with torch.multiprocessing.Pool(2) as pool:
            print(pool.map(torch.sum, [torch.ones(3), torch.ones(2)]) == [3, 2])
    """,
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_cpu_runs_where_all_modules_are_taken_and_leaves_nothing(script, taken, program):
    result = script(LOAD + code_of(program), warnings="ignore", **taken)
    assert result.out.splitlines() == ["True", "[] [] False"], result.err


def code_of(program):
    """The program, and what is left when it is done."""
    return f"""
here = names(".")
{dedent(PROGRAMS[program])}
made = [name for name in names(".") if name not in here and "hpu" in name.lower()]
print(ours(), made, torch.hpu.is_initialized())
"""


FIRST_USES = (
    "torch.ones(3, device='hpu')",
    "torch.empty(0, device='hpu')",
    "torch.ones(3).to('hpu')",
    "torch.ones(3).hpu()",
    "torch.nn.Linear(2, 2).to('hpu')",
    "torch.randn(3, device='hpu')",
    "torch.tensor([1.0], device='hpu')",
    "torch.UntypedStorage(8, device='hpu')",
    "torch.load(saved, map_location='hpu')",
    "torch.hpu.init()",
    "capture()",
)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
def test_the_first_memory_or_work_opens_the_device(script, asked, lazy):
    """Each in a process of its own, forked after a question or without one."""
    code = f"""
import io, os, sys, torch
from openhpu import events
from openhpu.device import mode

saved = io.BytesIO()
torch.save(torch.ones(3), saved)
saved.seek(0)

def capture():
    graph = torch.hpu.HPUGraph()
    graph.capture_begin()
    graph.capture_end()

seen = []
events.subscribe("device_acquired", lambda event: seen.append(event.params))
if {asked}:
    torch.accelerator.current_stream()
for use in {FIRST_USES}:
    assert not torch.hpu.is_initialized() and not seen and mode.name() is None
    pid = os.fork()
    if pid == 0:
        eval(use)
        print(use, torch.hpu.is_initialized(), seen, mode.name(), torch.hpu.get_device_properties().module)
        sys.exit()
    assert os.waitpid(pid, 0)[1] == 0, use
"""
    variables = {"PT_HPU_LAZY_MODE": str(int(lazy)), "OPENHPU_COMPILE": "off", "HABANA_VISIBLE_MODULES": "5"}
    result = script(code, warnings="ignore", TORCH_DEVICE_BACKEND_AUTOLOAD="1", **variables)
    mode = "lazy" if lazy else "eager"
    assert result.out.splitlines() == [f"{use} True [{{'device': 0}}] {mode} 5" for use in FIRST_USES], result.err


def test_the_core_opens_a_device_that_another_thread_uses_first(script):
    """A backward on the CPU whose gradient goes to hpu: the thread of autograd has no Python frame."""
    code = """
import threading
found = []

def use():
    torch.accelerator.current_stream()
    found.append(torch.ones(3, device="hpu").sum().item())

workers = [threading.Thread(target=use) for _ in range(8)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(found == [3.0] * 8, torch.hpu.is_initialized())
x = torch.ones(3, device="hpu", requires_grad=True)
(x * 2).sum().backward()
print(x.grad.tolist())
"""
    assert script(LOAD + code).out.splitlines() == ["True True", "[2.0, 2.0, 2.0]"]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_fork_after_questions_is_a_good_fork(script, lazy):
    code = """
stream, event = torch.hpu.Stream(), torch.hpu.Event(enable_timing=True)
event.record()
torch.accelerator.synchronize()
torch.hpu.memory_stats()
x = torch.ones(3, requires_grad=True)
(x * 2).sum().backward()
sys.stdout.flush()
pid = os.fork()
y = torch.ones(3, device="hpu", requires_grad=True)
for _ in range(3):
    y.grad = None
    (y * 2).sum().backward()
    torch.hpu.synchronize()
with torch.hpu.stream(stream):
    z = (y.detach() * 3).sum()
event.record(stream)
event.synchronize()
print("child" if pid == 0 else "parent", y.grad.tolist(), z.item(), torch.hpu._is_in_bad_fork(), flush=True)
if pid:
    print(os.waitpid(pid, 0)[1])
"""
    result = script(LOAD + code, PT_HPU_LAZY_MODE=str(int(lazy)), OPENHPU_COMPILE="background")
    assert sorted(result.out.splitlines()) == [
        "0",
        "child [2.0, 2.0, 2.0] 9.0 False",
        "parent [2.0, 2.0, 2.0] 9.0 False",
    ]


def test_autograd_gets_its_threads_for_the_device_after_a_backward_of_the_cpu(script):
    code = """
def grad(device):
    x = torch.ones(3, device=device, requires_grad=True)
    (x * 2).sum().backward()
    return x.grad.tolist()

def autograd():
    return sum(name.startswith("pt_autograd") for name in threads())

print(grad("cpu"), autograd())
print(grad("hpu"), grad("cpu"), grad("hpu:1"), autograd() > 0)
"""
    result = script(LOAD + code, OPENHPU_DEVICE_COUNT="2")
    assert result.out.splitlines() == ["[2.0, 2.0, 2.0] 0", "[2.0, 2.0, 2.0] [2.0, 2.0, 2.0] [2.0, 2.0, 2.0] True"]


@pytest.mark.parametrize("before", ["", "torch.ones(1, requires_grad=True).sum().backward()"])
@pytest.mark.parametrize("made", ["FakeTensorMode()", "contextlib.nullcontext()"])
def test_a_backward_of_tensors_without_memory_needs_no_device(script, before, made):
    """Of fake tensors, and of a subclass that has a device and no memory. `before`: whether the engine runs already."""
    code = f"""
import contextlib
import torch
from torch._subclasses import FakeTensorMode
from openhpu import _C

class Shaped(torch.Tensor):
    @staticmethod
    def __new__(cls, *size, **options):
        return torch.Tensor._make_wrapper_subclass(cls, size, device="hpu:0", **options)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        meta = [torch.empty(x.shape, device="meta") if isinstance(x, torch.Tensor) else x for x in args]
        options = kwargs or {{}}
        if "device" in options:
            options["device"] = torch.device("meta")
        return cls(*func(*meta, **options).shape)

{before}
with {made} as mode:
    x = torch.empty(2, 2, device="hpu", requires_grad=True) if mode else Shaped(2, 2, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.shape == (2, 2)
assert not _C.is_initialized()
"""
    script(LOAD + code)


def test_a_question_to_a_rank_without_a_module(script):
    code = """
h = torch.hpu
print(h.current_device(), h.current_stream().stream_id, h.synchronize(), torch.accelerator.current_stream().stream_id)
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item(), h.is_initialized())
torch.ones(1, device="hpu")
"""
    result = script(LOAD + code, warnings="ignore", fails=True, LOCAL_RANK="8", LOCAL_WORLD_SIZE="16")
    assert result.out.splitlines() == ["0 0 None 0", "2.0 False"], result.err
    assert "LOCAL_RANK=8 has no module" in result.last


def test_with_the_strict_level_a_question_acquires(script, taken):
    code = """
for question in (torch.hpu.current_stream, torch.hpu.get_device_name, torch.accelerator.synchronize):
    try:
        question()
    except RuntimeError as error:
        print("in use" in str(error))
"""
    assert script(LOAD + code, OPENHPU_STRICT="gaudi", **taken).out.splitlines() == ["True"] * 3
