"""A history of device memory, as PyTorch's visualiser reads it."""

import pickle

import pytest
import torch
from torch.cuda import _memory_viz

import openhpu.device.memory as memory

from .support import line


@pytest.fixture
def history():
    memory._record_memory_history()
    yield memory
    memory._record_memory_history(None)


def actions(snapshot, size=None):
    """Of blocks of that size, or of all."""
    return [e["action"] for e in snapshot["device_traces"][0] if size in (None, e["size"])]


def test_blocks_have_their_line(history):
    kept, number = torch.ones(1000, device="hpu"), line()
    lost = torch.ones(5000, device="hpu")
    torch.hpu.synchronize()
    del lost
    torch.hpu.synchronize()
    snapshot = history._snapshot()
    assert actions(snapshot, 4096) == ["alloc"]  # 4,000 bytes in multiples of 128
    assert actions(snapshot, 20096) == ["alloc", "free_requested", "free_completed"]
    (block,) = [b for s in snapshot["segments"] for b in s["blocks"] if b["size"] == 4096]
    assert block["state"] == "active_allocated"
    assert kept.numel() == 1000
    assert (block["frames"][0]["filename"], block["frames"][0]["line"]) == (__file__, number)


def test_pytorchs_tools_read_it(history, tmp_path):
    tensors = [torch.ones(1000 * n, device="hpu") for n in range(1, 5)]
    torch.hpu.synchronize()
    del tensors[1]
    torch.hpu.synchronize()
    history._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert "segments: 1" in _memory_viz.segsum(snapshot)
    assert "Device 0" in _memory_viz.trace(snapshot)
    assert "stream_0" in _memory_viz.memory(snapshot, format_flamegraph=lambda text: text)
    assert "<script" in _memory_viz.trace_plot(snapshot)
    assert "<script" in _memory_viz.segment_plot(snapshot)
    assert all(s["total_size"] == sum(b["size"] for b in s["blocks"]) for s in snapshot["segments"])


def test_only_the_last_events_are_kept(history):
    history._record_memory_history(max_entries=3)
    for _ in range(4):
        kept = torch.ones(1000, device="hpu")
        torch.hpu.synchronize()
        del kept
    assert sum(action != "free_requested" for action in actions(history._snapshot())) == 3


def test_nothing_is_kept_otherwise():
    memory._record_memory_history(enabled=None)
    torch.ones(1000, device="hpu")
    torch.hpu.synchronize()
    snapshot = memory._snapshot()
    assert snapshot["segments"] == []
    assert not any(snapshot["device_traces"])
    with pytest.raises(ValueError, match="-1 was given"):
        memory._record_memory_history(max_entries=-1)
