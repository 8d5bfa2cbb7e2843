import pytest
import torch


def test_current_and_default(hpu):
    assert hpu.current_stream() == hpu.default_stream()
    stream = hpu.Stream()
    assert isinstance(stream, torch.Stream)
    assert stream.id() == stream.hpu_stream == stream.stream_id != 0
    with hpu.stream(stream):
        assert hpu.current_stream() == stream
        assert torch.accelerator.current_stream() == stream
        with hpu.stream(None):
            assert hpu.current_stream() == stream
    assert hpu.current_stream() == hpu.default_stream("hpu:0")
    with stream:
        assert hpu.current_stream() == stream
    assert hpu.current_stream().id() == 0


def test_devices_of_streams(hpu):
    assert hpu.Stream("hpu").device == hpu.Stream(torch.device("hpu", 0)).device == torch.device("hpu:0")
    with pytest.raises(ValueError, match="hpu"):
        hpu.Stream("cpu")


def test_events(hpu):
    start = hpu.Event(enable_timing=True)
    end = torch.Event(device="hpu", enable_timing=True)
    for event in (start, end):
        assert isinstance(event, torch.Event)
        assert isinstance(event, hpu.Event)
        assert event.device.type == "hpu"
    start.record()
    torch.ones(1000, device="hpu").sum()
    end.record(hpu.current_stream())
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    assert torch.Stream(device="hpu").record_event(start) is start
    start.wait()
    assert issubclass(hpu.Event, torch.Event)
    assert not isinstance(torch.Event(device="cpu"), hpu.Event)


def test_a_subclass_of_event(hpu):
    class Mine(hpu.Event):
        pass

    assert type(Mine()) is Mine
    assert not isinstance(hpu.Event(), Mine)
