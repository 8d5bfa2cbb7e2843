"""Streams and events: exact query and synchronize, order of streams with each other, times of the device."""

import pytest
import torch


@pytest.fixture
def x():
    """A tensor on which `add_` has been seen."""
    x = torch.zeros(8, device="hpu")
    x.add_(1)
    torch.hpu.synchronize()
    return x


def test_a_stream_does_not_ask_about_others(x, gate):
    used, idle = torch.hpu.Stream(), torch.hpu.Stream()
    assert used.query()
    with gate:
        with torch.hpu.stream(used):
            x.add_(1)
        assert idle.query()
        idle.synchronize()  # must not wait
        assert not used.query()
    used.synchronize()
    assert used.query()
    assert x.tolist() == [2.0] * 8


def test_generic_streams_and_hpu_streams_are_the_same_thing():
    generic, own = torch.Stream(device="hpu"), torch.hpu.Stream()
    assert isinstance(own, torch.Stream)
    assert generic.device == own.device == torch.device("hpu:0")
    with generic:
        assert torch.accelerator.current_stream() == generic
        assert torch.hpu.current_stream().id() == generic.stream_id
    torch.accelerator.set_stream(own)
    assert torch.hpu.current_stream() == own
    torch.accelerator.set_stream(torch.hpu.default_stream())
    assert torch.Stream().device.type == "hpu"
    with pytest.raises(KeyError), torch.hpu.stream(own):
        raise KeyError
    assert torch.hpu.current_stream() == torch.hpu.default_stream()


def test_a_stream_is_named_again_by_its_numbers():
    stream = torch.hpu.Stream()
    number, index, kind = torch.hpu.get_stream_info(stream)
    again = torch.hpu.Stream(stream_id=number, device_index=index, device_type=kind)
    assert again == stream
    assert hash(again) == hash(stream)
    assert repr(stream) == f"<torch.hpu.Stream device=hpu:0 id={number}>"
    assert torch.hpu.default_stream().id() == 0
    with pytest.raises((RuntimeError, IndexError), match="stream"):
        torch.hpu.Stream(stream_id=123456, device_index=0, device_type=15).query()


def test_streams_are_used_again():
    """There are 32 of each priority, as many as PyTorch's other accelerators have: one a step doesn't grow."""
    for priority in (0, -1):
        streams = [torch.hpu.Stream(priority=priority) for _ in range(100)]
        assert len({stream.id() for stream in streams}) == 32
        assert 0 not in {stream.id() for stream in streams}
        assert all(stream.query() for stream in streams)
    with torch.hpu.stream(streams[-1]):
        assert torch.ones(2, device="hpu").sum().item() == 2


def test_wait_stream_and_wait_event_order_commands(x, gate):
    a, b = torch.hpu.Stream(), torch.hpu.Stream()
    with gate:
        with torch.hpu.stream(a):
            x.add_(1)
        event = a.record_event()
        b.wait_stream(a)
        b.wait_event(event)
        with torch.hpu.stream(b):
            x.add_(1)
        assert not event.query()
        assert not b.query()
    b.synchronize()
    assert event.query()
    assert a.query()
    assert x.tolist() == [3.0] * 8


@pytest.mark.parametrize(
    "part",
    [lambda x: x, lambda x: x[128:384], lambda x: x.view(16, 32).t(), lambda x: x[::2], lambda x: x.detach()[5:]],
)
@pytest.mark.parametrize("recorded", ["view", "base"])
@pytest.mark.parametrize("record", [torch.Tensor.record_stream, torch.hpu.record_stream])
def test_memory_of_a_recorded_stream_has_one_owner_until_the_stream_has_used_it(gate, level, part, recorded, record):
    stream = torch.hpu.Stream()

    def program():
        x = torch.full((512,), 2.0, device="hpu")
        address = x.data_ptr()
        view = part(x)
        with torch.hpu.stream(stream):
            y = view * 3
        record(view if recorded == "view" else x, stream)
        del x, view
        others = [torch.full((512,), -1.0, device="hpu") for _ in range(4)]
        return y, others, address

    program()
    torch.hpu.synchronize()
    with gate:
        y, others, address = program()
        assert address not in {other.data_ptr() for other in others}
    assert (y == 6).all().item()
    assert all(other.tolist() == [-1.0] * 512 for other in others)


@pytest.mark.parametrize("make", [lambda: torch.Event(device="hpu"), torch.hpu.Event, torch.Event])
def test_an_event_is_reached_when_the_work_before_it_is_done(make, x, gate):
    event = make()
    with gate:
        x.add_(1)
        event.record()
        assert not event.query()
    event.synchronize()
    assert event.query()
    assert x.tolist() == [2.0] * 8


def test_work_after_an_event_does_not_hold_it_back(x, gate):
    event = torch.hpu.Event()
    x.add_(1)
    event.record()
    torch.hpu.synchronize()
    with gate:
        x.add_(1)
        assert event.query()
        event.synchronize()  # must not wait


def test_an_event_takes_the_stream_that_it_is_given(x, gate):
    stream, event = torch.hpu.Stream(), torch.hpu.Event()
    with gate:
        x.add_(1)
        with torch.hpu.stream(stream):
            x.add_(1)
        event.record(stream)
        assert not event.query()
    event.wait(torch.hpu.current_stream())
    event.wait()
    event.synchronize()


def test_elapsed_time_is_the_devices():
    begin, end = torch.hpu.Event(enable_timing=True), torch.hpu.Event(enable_timing=True)
    x = torch.ones(256, 256, device="hpu")
    begin.record()
    for _ in range(20):
        x = x @ x / 256
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) > 0
    assert end.elapsed_time(begin) == -begin.elapsed_time(end)
    untimed = torch.hpu.Event()
    untimed.record()
    with pytest.raises((RuntimeError, ValueError), match="enable_timing"):
        begin.elapsed_time(untimed)
