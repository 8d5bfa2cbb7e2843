"""torch.profiler with ProfilerActivity.HPU: what the device did, on its own tracks."""

import os
import threading

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from openhpu import _C
from tests import traces

from .conftest import LAZY
from .support import capture, in_threads, loss_of, make

BOTH = [ProfilerActivity.CPU, ProfilerActivity.HPU]
lazy = pytest.mark.skipif(not LAZY, reason="of a graph that is one command, with its operators within")


@pytest.fixture
def model():
    """Runs a forward and a backward pass whose operators are known."""
    layers, _, x, target = make("mlp", steps=2)

    def step():
        layers.zero_grad()
        loss_of(layers, x, target).backward()

    return step


@pytest.fixture
def profiled(tmp_path):
    """`profiled(work, **options)`: the profile of `work()` up to its end on the device, and the events of its trace."""

    def run(work, **options):
        with profile(activities=BOTH, **options) as prof:
            work()
            torch.hpu.synchronize()
        return prof, exported(prof, tmp_path)

    return run


def device_events(prof):
    return [e for e in prof.events() if e.device_type == DeviceType.HPU]


def is_off(model):
    """The profiler is: another profile can be made."""
    with profile(activities=BOTH) as again:
        model()
    assert device_events(again)


def exported(prof, tmp_path):
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    return traces.events_of(path)


@pytest.mark.skipif(LAZY, reason="there operators are parts of graphs")
def test_operators_are_events_of_the_device(model, profiled, counted):
    with counted() as work:
        prof, events = profiled(model)
    submitted = work["ops_submitted"] + work["ops_waited"]
    found = device_events(prof)
    assert len(found) == submitted > 10
    assert {"aten::addmm", "aten::mm", "aten::threshold_backward"} <= {e.name for e in found}
    assert all(e.device_index == 0 for e in found)
    commands = traces.named(events, "kernel")
    assert len(commands) == len(traces.named(events, "cuda_runtime", "hpuLaunchKernel")) == len(found)
    assert all(e["pid"] == 0 and e["tid"] == 0 and e["args"]["stream"] == 0 for e in commands)
    addmm = traces.named(events, "kernel", "aten::addmm")[0]
    assert addmm["args"]["line"].split(":")[0] == loss_of.__code__.co_filename
    by_id = {e["args"]["External id"]: e for e in traces.named(events, "cpu_op")}
    assert by_id[addmm["args"]["External id"]]["name"] == "aten::addmm"


def test_tables_have_columns_of_the_device(model):
    with profile(activities=BOTH, record_shapes=True) as prof, record_function("everything"):
        model()
        torch.hpu.synchronize()
    averages = prof.key_averages()
    for column in ("hpu_time_total", "self_hpu_time_total", "device_time_total", "self_cpu_time_total"):
        text = averages.table(sort_by=column, row_limit=5)
        assert "Self HPU" in text
        assert "HPU total" in text
    everything = next(e for e in averages if e.key == "everything" and e.device_type == DeviceType.CPU)
    assert everything.device_time_total > 0
    total = sum(e.self_device_time_total for e in averages if e.device_type == DeviceType.HPU)
    whole = end = 0
    for e in sorted(device_events(prof), key=lambda e: (e.time_range.start, -e.time_range.end)):
        if e.time_range.start >= end:  # else it is a part of the one before
            whole = whole + e.time_range.elapsed_us()
            end = e.time_range.end
    assert total == pytest.approx(whole, rel=1e-6)
    assert "Self HPU time total" in averages.table()


def test_copies_have_bytes(profiled):
    _, events = profiled(lambda: torch.ones(1024).to("hpu").cpu())
    for name in ("Memcpy HtoD", "Memcpy DtoH"):
        (copy,) = traces.named(events, "gpu_memcpy", name)
        assert copy["args"]["bytes"] == 4096


@pytest.mark.skipif(LAZY, reason="streams share a graph's command")
def test_streams_are_tracks(profiled):
    x = torch.ones(8, device="hpu")
    other = torch.hpu.Stream()
    torch.hpu.synchronize()

    def work():
        x.add_(1)
        with torch.hpu.stream(other):
            x.add_(1)

    first, second = traces.named(profiled(work)[1], "kernel")
    assert first["tid"] == 0
    assert second["tid"] == other.stream_id != 0


def test_the_last_name_of_the_device_is_its_own(model, profiled):
    names = [e for e in profiled(model)[1] if e["name"] == "process_name" and e["pid"] == 0]
    others = {e["args"]["name"] for e in names} - {"HPU 0"}
    if torch.__version__ < (2, 14):
        assert others, "kineto names it too"
    last = max(names, key=lambda e: e["ts"])  # readers that sort by time show this one
    assert last["args"]["name"] == "HPU 0"
    assert names.count(last) == 1


def test_ranges_are_on_the_device(model, profiled):
    def work():
        with record_function("outer"), record_function("inner"):
            model()
            torch.hpu.synchronize()

    prof, events = profiled(work)
    (outer,) = traces.named(events, "gpu_user_annotation", "outer")
    (inner,) = traces.named(events, "gpu_user_annotation", "inner")
    assert traces.inside(inner, outer)
    assert all(traces.inside(e, inner) for e in traces.named(events, "kernel"))
    assert sum(e.name == "inner" for e in prof.events()) == 1


def test_waits_and_fallbacks_are_on_the_host(profiled):
    x = torch.ones(4, 4, device="hpu")
    _, events = profiled(lambda: torch.linalg.eigvalsh(x).sum().item())  # no native operator
    falls = traces.named(events, "cuda_runtime", "hpuFallback")
    assert any("eigh" in e["args"]["detail"] for e in falls)
    assert {e["pid"] for e in falls} == {os.getpid()}


@pytest.mark.filterwarnings("ignore:with_modules is deprecated:FutureWarning")  # from 2.15 on
@pytest.mark.parametrize("memory", [False, True])
def test_everything_at_once(model, profiled, memory):
    def work():
        model()
        torch.empty(1 << 16, device="hpu").fill_(1).cpu()

    every = dict.fromkeys(("record_shapes", "with_stack", "with_modules", "with_flops"), True)
    prof, events = profiled(work, profile_memory=memory, **every)
    used = [e["args"] for e in events if e["name"] == "[memory]" and e["args"]["Device Type"] == DeviceType.HPU.value]
    ours = [a for a in used if abs(a["Bytes"]) == 1 << 18]
    assert bool(ours) == bool(used) == memory
    if memory:
        assert ours[0]["Bytes"] == 1 << 18
        assert all(a["Total Reserved"] >= a["Total Allocated"] for a in ours)
        assert "HPU Mem" in prof.key_averages().table()
    assert traces.named(events, "python_function")
    assert any(e.get("cat") == "fwdbwd" for e in events)  # the arrows of the backward


def test_a_profile_without_the_device(profiled):
    prof, events = profiled(lambda: torch.ones(3).add_(1))
    assert not device_events(prof)
    prof.key_averages().table(sort_by="hpu_time_total")
    assert not traces.named(events, "kernel")


@pytest.mark.parametrize("activity", [ProfilerActivity.CPU, ProfilerActivity.HPU])
def test_one_activity_alone(model, activity):
    with profile(activities=[activity]) as prof:
        assert _C.tracing() == (activity == ProfilerActivity.HPU)
        model()
    assert bool(device_events(prof)) == (activity == ProfilerActivity.HPU)
    assert ("HPU" in prof.key_averages().table(sort_by="hpu_time_total")) == (activity == ProfilerActivity.HPU)


@pytest.mark.usefixtures("strict_indices")
def test_an_error_of_the_device_ends_the_profile(model):
    index = torch.tensor([9], device="hpu")
    x = torch.zeros(3, device="hpu")
    prof = profile(activities=BOTH)
    with pytest.raises((RuntimeError, IndexError), match="index"), prof:
        model()
        x.index_select(0, index)
    assert device_events(prof)
    is_off(model)


def test_nested_profiles_are_an_error(model):
    with profile(activities=BOTH) as prof:
        with pytest.raises(RuntimeError, match="while another one is recorded"), profile(activities=BOTH):
            pass
        model()
    assert device_events(prof)


def test_started_in_one_thread_and_stopped_in_another(model):
    prof = profile(activities=BOTH)
    prof.start()
    model()
    torch.hpu.synchronize()
    with pytest.raises(RuntimeError, match="begun in another thread"):
        in_threads(prof.stop)
    prof.stop()
    assert device_events(prof)
    is_off(model)


def test_other_threads_are_seen(model, profiled):
    _, events = profiled(lambda: in_threads(model))
    assert traces.named(events, "kernel")
    launches = [e for e in traces.named(events, "cuda_runtime") if e["name"].startswith("hpuLaunch")]
    assert {e["tid"] for e in launches} != {threading.get_native_id()}


def test_nvtx_says_what_to_use(model):
    with pytest.warns(UserWarning, match="emit_nvtx marks nothing"), torch.autograd.profiler.emit_nvtx():
        model()
    with torch.autograd.profiler.emit_itt():
        model()


def test_the_time_of_commands_is_the_workers(profiled):
    """The worker's own clock reads once a batch; here a batch is one long command."""
    x = torch.randn(512, 512, device="hpu")
    x @ x
    torch.hpu.synchronize()
    before = _C.device_sample(0)[3]
    _, events = profiled(lambda: [x @ x for _ in range(20)])
    busy = _C.device_sample(0)[3] - before
    assert 0 < sum(e["dur"] for e in traces.named(events, "kernel")) * 1e3 <= busy


def test_debug_activities_of_gaudi(model):
    from habana_frameworks.torch.activity_profiler import DebugActivity

    with profile(activities=BOTH, debug_activities=list(DebugActivity)) as prof:
        model()
    assert device_events(prof)
    with pytest.raises(TypeError, match="DebugActivity"):
        profile(activities=BOTH, debug_activities=["bridge"])


def test_replays_are_one_command_with_parts(profiled):
    x = torch.randn(64, 64, device="hpu")
    graph, result = capture(lambda: (x @ x).relu())
    graph.replay()
    torch.hpu.synchronize()
    _, events = profiled(graph.replay)
    assert result.shape == x.shape
    (replay,) = traces.named(events, "kernel", "graph replay")
    parts = traces.named(events, "hpu_op")
    assert [e["name"] for e in parts] == ["aten::mm", "aten::relu"]
    assert all(traces.inside(e, replay) for e in parts)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 on: the process has threads
def test_a_fork_within_a_profile(model, profiled):
    def work():
        model()
        torch.hpu.synchronize()
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        model()

    assert traces.named(profiled(work)[1], "kernel")


@lazy
def test_operators_are_parts_of_their_graph(profiled):
    x = torch.ones(64, 64, device="hpu")

    def work():
        (x @ x).relu().sum().item()

    work()
    torch.hpu.synchronize()
    prof, events = profiled(work)
    (graph,) = traces.named(events, "kernel", "graph")
    assert graph["args"]["operators"] == 3
    parts = traces.named(events, "hpu_op")
    assert [e["name"] for e in parts] == ["aten::mm", "aten::relu", "aten::sum"]
    assert all(traces.inside(e, graph) for e in parts)
    assert all(e["args"]["line"].startswith(__file__) for e in parts)
    rows = {e.key: e for e in prof.key_averages() if e.device_type == DeviceType.HPU}
    assert rows["graph"].self_device_time_total < rows["graph"].device_time_total
    assert rows["aten::mm"].device_time_total > 0


@lazy
def test_flushes_and_lookups_are_on_the_host(profiled):
    x = torch.ones(8, device="hpu")
    x.add(1).mul(2)
    torch.hpu.synchronize()
    _, events = profiled(lambda: x.add(1).mul(2))
    (flush,) = traces.named(events, "cuda_runtime", "hpuFlush")
    assert flush["args"]["detail"] == "2 operators, node by node"
    (launch,) = traces.named(events, "cuda_runtime", "hpuLaunchGraph")
    assert traces.inside(launch, flush)
