"""Whatever looks at a value ends the step: reads, copies, data-dependent sizes, events, streams."""

import pytest
import torch

import habana_frameworks.torch.core as htcore

from .test_serialization import through_a_file


@pytest.fixture
def pending(counted):
    """A tensor that was recorded and not flushed: [3, 1, 4, 2] scaled by 1."""
    source = torch.tensor([3.0, 1, 4, 2]).to("hpu")
    source * 1 + 0
    torch.hpu.synchronize()
    with counted(ops_recorded=2, graphs_flushed=0):
        tensor = source * 1 + 0
    return tensor


# A read and what it gives; others are PyTorch's own code, by `item` and `cpu`.
READS = {
    "item": (lambda x: x[0].item(), 3.0),
    "bool": (lambda x: bool(x[0] > 2), True),
    "cpu": (lambda x: x.cpu().tolist(), [3.0, 1, 4, 2]),
    "copy_ to host": (lambda x: torch.zeros(4).copy_(x).tolist(), [3.0, 1, 4, 2]),
    "tolist": (lambda x: x.tolist(), [3.0, 1, 4, 2]),
    "print": (str, "tensor([3., 1., 4., 2.], device='hpu:0')"),
    "nonzero": (lambda x: (x > 2).nonzero().flatten().tolist(), [0, 2]),
    "masked_select": (lambda x: x[x > 2].tolist(), [3.0, 4.0]),
    "unique": (lambda x: x.unique().tolist(), [1.0, 2, 3, 4]),
    "equal": (lambda x: torch.equal(x, x.clone()), True),
    "save": (lambda x: through_a_file(x, map_location="cpu").tolist(), [3.0, 1, 4, 2]),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_ends_the_step_and_sees_its_values(name, pending, counted):
    read, expected = READS[name]
    with counted() as work:
        assert read(pending) == expected
    assert work["graphs_flushed"] > 0
    assert work["ops_node_by_node"] == work["ops_recorded"] + 2  # what the read itself records is flushed as well


FLUSHES = {
    "synchronize": torch.hpu.synchronize,
    "accelerator.synchronize": torch.accelerator.synchronize,
    "stream.synchronize": lambda: torch.hpu.current_stream().synchronize(),
    "event.record": lambda: torch.hpu.Event().record(),
    "stream.record_event": lambda: torch.hpu.current_stream().record_event(),
    "mark_step": htcore.mark_step,
    "mark_step sync": lambda: htcore.mark_step(sync=True),
    "iter_mark_step": htcore.step.iter_mark_step if hasattr(htcore, "step") else htcore.mark_step,
    "memory statistics": torch.hpu.memory_allocated,
    "stream.query": lambda: torch.hpu.current_stream().query(),
}


@pytest.mark.parametrize("name", FLUSHES)
def test_what_marks_a_place_in_the_queue_hands_the_graph_over(name, pending, counted):
    with counted(graphs_flushed=1, ops_node_by_node=2):
        FLUSHES[name]()
    with counted(graphs_flushed=0):  # nothing is left
        FLUSHES[name]()
    assert pending.tolist() == [3.0, 1, 4, 2]


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.shape,
        lambda x: x.stride(),
        len,
        lambda x: x.device,
        lambda x: x.dtype,
        lambda x: x.numel(),
        lambda x: x.is_contiguous(),
        lambda x: x.requires_grad,
        lambda x: x.view(2, 2).t(),
        lambda x: x.detach(),
    ],
)
def test_metadata_and_views_are_no_reads(look, pending, counted):
    with counted(graphs_flushed=0, blocking_reads=0):
        look(pending)


def test_a_switch_of_streams_keeps_the_order(counted):
    stream = torch.hpu.Stream()
    for known in (False, True):
        with counted(ops_recorded=4) if known else counted():
            x = torch.zeros(8, device="hpu") + 1
            with torch.hpu.stream(stream):
                x.mul_(3)
            x.add_(1)
    assert x.tolist() == [4.0] * 8


def test_a_copy_from_the_host_into_a_recorded_tensor_comes_after_what_reads_it(counted):
    for _ in range(2):
        with counted() as work:
            x = torch.ones(4, device="hpu") * 2
            before = x + 1
            x.copy_(torch.tensor([9.0, 8, 7, 6]))
            x[2:].copy_(torch.tensor([1.0, 2]))
            after = x + 1
        assert before.tolist() == [3.0] * 4
        assert after.tolist() == [10.0, 9, 2, 3]
    assert work["copies_h2d"] == 2
    assert work["ops_recorded"] >= 4


def test_pinned_copies_into_and_out_of_graph_members():
    out, source = torch.zeros(4).pin_memory(), torch.arange(4.0).pin_memory()
    for round_ in range(3):
        x = torch.zeros(4, device="hpu") + round_
        x.add_(source.to("hpu", non_blocking=True))
        out.copy_(x, non_blocking=True)
        x.zero_()  # recorded later than the copy
        torch.hpu.synchronize()
        assert out.tolist() == [round_ + 0.0, round_ + 1, round_ + 2, round_ + 3]
        assert x.tolist() == [0.0] * 4


def test_an_index_on_the_host_is_queued_behind_the_step(counted, gate):
    """No graph can hold its contents: the step ends, is whole, and the host does not wait."""

    def program():
        x = table * 2
        return x[index] + 1, x

    table, index = torch.arange(8.0, device="hpu").view(4, 2), torch.tensor([2, 0])
    program()
    torch.hpu.synchronize()
    with gate, counted(graphs_cut=0, ops_waited=0, ops_submitted=1, ops_recorded=2, graphs_flushed=2):
        y, x = program()
        torch.hpu.current_stream().record_event()
    assert y.tolist() == [[9.0, 11], [1, 3]]
    assert x.tolist() == [[0.0, 2], [4, 6], [8, 10], [12, 14]]
