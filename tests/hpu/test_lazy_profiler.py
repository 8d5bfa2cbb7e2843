"""torch.profiler in lazy mode: a graph is one command, with its operators within."""

import torch
from torch.autograd import DeviceType

from tests import traces

from .test_profiler import profiled  # noqa: F401


def test_operators_are_parts_of_their_graph(profiled):  # noqa: F811
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


def test_flushes_and_lookups_are_on_the_host(profiled):  # noqa: F811
    x = torch.ones(8, device="hpu")
    x.add(1).mul(2)
    torch.hpu.synchronize()
    _, events = profiled(lambda: x.add(1).mul(2))
    (flush,) = traces.named(events, "cuda_runtime", "hpuFlush")
    assert flush["args"]["detail"] == "2 operators, node by node"
    (launch,) = traces.named(events, "cuda_runtime", "hpuLaunchGraph")
    assert traces.inside(launch, flush)
