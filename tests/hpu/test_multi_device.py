"""Several devices in one process, and the processes of launchers, which own one module each."""

from functools import partial

import pytest


@pytest.fixture
def two(script):
    """`script`, with two devices."""
    return partial(script, OPENHPU_DEVICE_COUNT="2")


def test_tensors_move_between_devices_in_the_order_of_both_queues(two):
    two("""
x = torch.arange(6.0, device="hpu:0").view(2, 3)
for _ in range(3):
    y = (x * 2).to("hpu:1")
    z = (y.t() + 1).to("hpu:0", non_blocking=True)
    y.add_(100)
assert z.tolist() == [[1.0, 7.0], [3.0, 9.0], [5.0, 11.0]]
assert y.device == torch.device("hpu:1")
assert torch.equal(y.cpu(), x.cpu() * 2 + 100)
big = torch.ones(1 << 20, device="hpu:0")
for _ in range(5):
    copy = (big + 1).to("hpu:1")
    del big
    big = torch.ones(1 << 20, device="hpu:0")
    assert copy.sum().item() == 2 << 20
# What writes the source is held for a while: the copy waits for it.
torch.hpu.synchronize(0)
_C.block_queue(0)
release = threading.Timer(0.5, _C.unblock_queue, (0,))
release.start()
late = (x * 2 + 5).to("hpu:1")
release.join()
assert torch.equal(late.cpu(), x.cpu() * 2 + 5)
# So do gradients.
w = torch.ones(3, device="hpu:0", requires_grad=True)
v = torch.full((3,), 2.0, device="hpu:1", requires_grad=True)
((w * 3).to("hpu:1") * v).sum().backward()
assert w.grad.device == w.device
assert w.grad.tolist() == [6.0] * 3
assert v.grad.device == v.device
assert v.grad.tolist() == [3.0] * 3
""")


def test_operands_on_two_devices_are_refused(two):
    two("""
a, b = torch.ones(2, 2, device="hpu:0"), torch.ones(2, 2, device="hpu:1")
for function in (
    lambda: a + b, lambda: a @ b, lambda: a.add_(b), lambda: torch.cat([a, b]), lambda: torch.add(a, a, out=b)
):
    with pytest.raises(RuntimeError, match="(?=.*hpu:0)(?=.*hpu:1)"):
        function()
assert torch.equal(a + torch.tensor(1.0), a + 1)
""")


def test_streams_and_events_work_across_devices(two):
    two("""
a, b = torch.zeros(4, device="hpu:0"), torch.zeros(4, device="hpu:1")
a.add_(1); b.add_(1)
torch.hpu.synchronize(0); torch.hpu.synchronize(1)
_C.block_queue(0)
a.add_(1)
event = torch.hpu.current_stream(0).record_event()
torch.hpu.current_stream(1).wait_event(event)
with torch.hpu.device(1):
    b.add_(1)
    done = torch.hpu.current_stream(1).record_event()
# For as long as a queue that does not wait would need.
assert not event.query()
assert not any(time.sleep(0.01) or done.query() for _ in range(20))
_C.unblock_queue(0)
torch.hpu.synchronize(1)
assert event.query()
assert done.query()
assert a.tolist() == b.tolist() == [2.0] * 4
# Without an event one device does not wait for another.
_C.block_queue(0)
assert b.add_(1).tolist() == [3.0] * 4
_C.unblock_queue(0)
""")


def test_an_error_belongs_to_its_device(two):
    code = """
table, index = torch.ones(3, 2, device="hpu:1"), torch.zeros(2, dtype=torch.long, device="hpu:1")
torch.ones(1, device="hpu:0")
torch.nn.functional.embedding(index, table)
torch.nn.functional.embedding(index + 9, table)
torch.hpu.synchronize(0)
print("synchronized", flush=True)
torch.hpu.synchronize(1)
"""
    result = two(code, OPENHPU_OUT_OF_RANGE="error", fails=True)
    assert result.out == "synchronized"
    assert "IndexError" in result.err


def test_a_launchers_process_means_its_module_by_every_index(script):
    code = """
        assert torch.hpu.device_count() == 2
        assert [torch.hpu.get_device_properties(i).module for i in range(2)] == [1, 1]
        a, b, first = torch.ones(2, device="hpu:0"), torch.ones(2, device="hpu:1"), torch.device("hpu:0")
        assert (a + b).device == a.device == b.device == torch.ones(1, device="hpu").device == first
        torch.hpu.set_device(1)
        assert torch.hpu.current_device() == 0
        torch.nn.Linear(2, 2).to("hpu:1")(torch.ones(1, 2, device="hpu:0"))
    """
    script(code, LOCAL_RANK="1", LOCAL_WORLD_SIZE="2")


def test_a_process_that_chose_none_has_the_indices_of_a_node_and_no_more_devices_than_cores(script):
    code = """
        cores = len(os.sched_getaffinity(0))
        assert torch.hpu.device_count() == torch.accelerator.device_count() <= min(8, cores)
        w = torch.ones(3, requires_grad=True)
        (w * 2).sum().backward()  # starts autograd's threads
        for i in range(8):
            assert [_C.device_sample(k) is None for k in range(8)] == [k >= i for k in range(8)]
            x = torch.full((3,), float(i), device=f"hpu:{i}", requires_grad=True)
            (x * x).sum().backward()
            assert x.grad.device == torch.device(f"hpu:{i}")
            assert x.grad.tolist() == [2.0 * i] * 3
        assert [torch.hpu.get_device_properties(i).module for i in range(8)] == list(range(8))  # nothing is locked
        torch.ones(1, device="hpu:8")
    """
    assert "index 8 is out of range" in script(code, fails=True).err


def test_one_core_is_one_device_for_who_takes_all(script):
    code = """
        import os
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        import torch
        from torch.distributed.run import determine_local_world_size
        print(torch.hpu.device_count(), determine_local_world_size("auto"), len(torch.hpu.get_rng_state_all()))
    """
    assert script(code, bare=True).out == "1 1 8"
    assert script(code, bare=True, OPENHPU_DEVICE_COUNT="3").out == "3 3 3"
