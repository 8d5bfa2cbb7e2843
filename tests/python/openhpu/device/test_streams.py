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


def test_a_stream_named_again_is_the_same(hpu):
    stream = hpu.Stream(priority=-1)
    number, index, kind = hpu.get_stream_info(stream)
    again = hpu.Stream(stream_id=number, device_index=index, device_type=kind)
    assert again == stream
    assert hash(again) == hash(stream)
    assert repr(stream) == f"<torch.hpu.Stream device=hpu:0 id={number}>"


def test_waiting(hpu):
    first, second = hpu.Stream("hpu"), hpu.Stream(torch.device("hpu", 0))
    event = first.record_event()
    assert isinstance(event, hpu.Event)
    second.wait_event(event)
    second.wait_stream(first)
    second.synchronize()
    assert second.query()
    assert event.query()
    tensor = torch.ones(3, device="hpu")
    hpu.record_stream(tensor, second)


def test_a_stream_of_another_device(hpu):
    with pytest.raises(ValueError, match="hpu"):
        hpu.Stream("cpu")


def test_events(hpu):
    start, end = hpu.Event(enable_timing=True), torch.Event(device="hpu", enable_timing=True)
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
