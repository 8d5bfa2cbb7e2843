"""A user's operator in traces, reports, checks and predictions: by its schema's name and its guid."""

import re

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from openhpu.observe.insight import advice, page, summary
from openhpu.observe.insight.collector import Collector
from tests import traces
from tests.hpu import custom_ops
from tests.hpu.support import checked_graphs

OPS = torch.ops.openhpu_test
SCALE = "openhpu_test::scale (test_scale_f32)"


@pytest.fixture(scope="module", autouse=True)
def library():
    custom_ops.loaded()


def profiled(work):
    work()
    torch.hpu.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.HPU]) as recorded:
        work()
        torch.hpu.synchronize()
    return recorded


def names_on_device(work):
    return {event.name for event in profiled(work).events() if event.device_type == DeviceType.HPU}


def test_a_trace_names_operator_and_guid():
    x = torch.randn(4).to("hpu")
    assert SCALE in names_on_device(lambda: OPS.scale(x, 2.0))


def test_ranges_and_events_surround_it(tmp_path):
    x = torch.randn(4).to("hpu")
    begin, end = torch.hpu.Event(enable_timing=True), torch.hpu.Event(enable_timing=True)
    side = torch.hpu.Stream()

    def work():
        with torch.profiler.record_function("a range of the user's"), torch.hpu.stream(side):
            begin.record(side)
            y = OPS.scale(x, 2.0)
            end.record(side)
        torch.hpu.current_stream().wait_event(end)
        return y + 1

    profiled(work).export_chrome_trace(str(tmp_path / "trace.json"))
    events = traces.events_of(tmp_path / "trace.json")
    (around,) = traces.named(events, "gpu_user_annotation", "a range of the user's")
    kernels = traces.named(events, "kernel")
    (inside,) = [e for e in kernels if e["name"] == SCALE] or kernels[:1]  # in lazy mode a part of a graph
    assert around["ts"] <= inside["ts"] and inside["ts"] + inside["dur"] <= around["ts"] + around["dur"] + 1
    assert begin.elapsed_time(end) >= 0 and begin.query()
    assert torch.equal(work().cpu(), x.cpu() * 2 + 1)


def test_the_report_lists_it_and_advises_against_a_kernel_in_python(tmp_path):
    collector = Collector(tmp_path)
    x = torch.randn(4).to("hpu")
    OPS.scale(x, 2.0)
    OPS.by_name(x, "openhpu_test::in_python")
    torch.hpu.synchronize()
    document = collector.document(True)
    names = ("openhpu_test::scale", "openhpu_test::in_python")
    document["user_operators"] = [row for row in document["user_operators"] if row["schema"] in names]
    (row,) = [row for row in document["user_operators"] if row["schema"] == "openhpu_test::scale"]
    assert row["guid"] == "test_scale_f32" and row["kernel"] == "C++ function" and row["calls"] >= 1
    text = summary.text([document], 0)
    assert re.search(r"openhpu_test::scale \(test_scale_f32\): \d+ calls?, C\+\+ function\n", text)
    held = r"openhpu_test::in_python \(test_python_f32\): \d+ calls?, Python function, which takes Python's lock"
    assert re.search(held, text)
    assert ">test_scale_f32<" in page.text(document)
    (found,) = [piece for piece in advice.advise(document) if "user operators" in piece.title]
    assert len(found.evidence) == 1 and re.match(held, found.evidence[0])


def test_a_stale_graph_names_it():
    factor = [2.0]
    x = torch.arange(4.0, device="hpu")
    with checked_graphs() as seen, pytest.warns(RuntimeWarning, match=re.escape(SCALE)):
        f = torch.hpu.wrap_in_hpu_graph_func(lambda x: OPS.scale(x, factor[0]) + 1)
        f(x)
        f(x)
        assert [outcome for outcome, _ in seen] == ["equal", "equal"], seen
        factor[0] = 3.0
        f(x)
    outcome, text = seen[-1]
    assert outcome == "different" and "factor[0] was 2.0 at the capture and is 3.0 now" in text, seen
