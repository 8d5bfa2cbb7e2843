"""Every collective of torch.distributed on hpu tensors, against what it is defined to do."""

import pytest
import torch
import torch.distributed as dist

from tests.distributed.ranks import ranks

REDUCED = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
]
MOVED = [*REDUCED, torch.bool, torch.int16, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2]


def values(rank, dtype=torch.float32, shape=(3, 4)):
    """Different on each rank, exact in every dtype."""
    numbers = torch.arange(torch.Size(shape).numel()).reshape(shape) % 5 + rank + 1
    return (numbers % 2 == 0) if dtype is torch.bool else numbers.to(dtype)


def on_hpu(rank, dtype=torch.float32, shape=(3, 4)):
    return values(rank, dtype, shape).to("hpu")


def equal(found, expected):
    assert found.device.type == "hpu"
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [*REDUCED, torch.bool], ids=str)
@ranks(2)
def test_all_reduce(dtype):
    rank = dist.get_rank()
    a, b = values(0, dtype), values(1, dtype)
    cases = {
        dist.ReduceOp.SUM: a + b,
        dist.ReduceOp.PRODUCT: a * b,
        dist.ReduceOp.MIN: torch.minimum(a, b),
        dist.ReduceOp.MAX: torch.maximum(a, b),
    }
    if dtype is torch.bool:
        cases = {dist.ReduceOp.SUM: a | b, dist.ReduceOp.PRODUCT: a & b, dist.ReduceOp.BXOR: a ^ b}
        with pytest.raises(RuntimeError, match=r"Cannot use ReduceOp\.AVG with boolean inputs"):
            dist.all_reduce(on_hpu(rank, dtype), dist.ReduceOp.AVG)
    elif not dtype.is_floating_point:
        cases |= {dist.ReduceOp.BAND: a & b, dist.ReduceOp.BOR: a | b, dist.ReduceOp.BXOR: a ^ b}
        cases[dist.ReduceOp.AVG] = torch.div(a + b, 2, rounding_mode="trunc").to(dtype)
    else:
        cases[dist.ReduceOp.AVG] = (a + b) / 2
    for op, expected in cases.items():
        x = on_hpu(rank, dtype)
        assert dist.all_reduce(x, op) is None
        equal(x, expected)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@ranks(2)
def test_what_is_only_moved_keeps_its_bits(dtype):
    rank = dist.get_rank()
    x = on_hpu(rank, dtype)
    dist.broadcast(x, src=1)
    equal(x, values(1, dtype))
    x = on_hpu(rank, dtype)
    outputs = [torch.zeros_like(x) for _ in range(2)]
    dist.all_gather(outputs, x)
    for other in range(2):
        equal(outputs[other], values(other, dtype))
    if rank == 0:
        dist.send(x, dst=1)
    else:
        received = torch.zeros_like(x)
        assert dist.recv(received, src=0) == 0
        equal(received, values(0, dtype))


@ranks(2)
def test_reduce_gather_and_scatter():
    rank = dist.get_rank()
    for op, dst, expected in (
        (dist.ReduceOp.SUM, 1, values(0) + values(1)),
        (dist.ReduceOp.AVG, 0, (values(0) + values(1)) / 2),
    ):
        x = on_hpu(rank)
        dist.reduce(x, dst=dst, op=op)
        if rank == dst:
            equal(x, expected)
    x = on_hpu(rank)
    outputs = [torch.zeros_like(x) for _ in range(2)] if rank == 0 else None
    dist.gather(x, outputs, dst=0)
    for other, out in enumerate(outputs or ()):
        equal(out, values(other))
    out = torch.zeros(3, 4, device="hpu")
    dist.scatter(out, [on_hpu(5), on_hpu(6)] if rank == 1 else None, src=1)
    equal(out, values(5 + rank))


@ranks(2)
def test_gathered_into_one_tensor():
    together = torch.cat([values(0), values(1)])
    for shape in ((6, 4), (2, 3, 4), (24,)):
        out = torch.zeros(shape, device="hpu")
        dist.all_gather_into_tensor(out, on_hpu(dist.get_rank()))
        equal(out, together.reshape(shape))


@pytest.mark.parametrize("op", ["SUM", "AVG", "MAX"])
@ranks(2)
def test_reduce_scatter(op):
    rank = dist.get_rank()
    parts = [values(rank), values(rank + 3)]
    both = [torch.stack([values(part * 3), values(1 + part * 3)]) for part in range(2)]
    expected = {"SUM": both[rank].sum(0), "AVG": both[rank].mean(0), "MAX": both[rank].amax(0)}[op]
    out = torch.zeros(3, 4, device="hpu")
    dist.reduce_scatter(out, [p.to("hpu") for p in parts], getattr(dist.ReduceOp, op))
    equal(out, expected)
    out = torch.zeros(3, 4, device="hpu")
    dist.reduce_scatter_tensor(out, torch.cat(parts).to("hpu"), getattr(dist.ReduceOp, op))
    equal(out, expected)
    # Parts of a length for each rank.
    mine = torch.zeros(1 + rank, 3, device="hpu")
    dist.reduce_scatter(mine, [on_hpu(rank, shape=(1 + other, 3)) for other in range(2)], getattr(dist.ReduceOp, op))
    both = torch.stack([values(other, shape=(1 + rank, 3)) for other in range(2)])
    equal(mine, {"SUM": both.sum(0), "AVG": both.mean(0), "MAX": both.amax(0)}[op])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.bool], ids=str)
@ranks(2)
def test_parts_of_unequal_length(dtype):
    rank = dist.get_rank()
    sent = [1, 3] if rank == 0 else [2, 4]
    received = [1, 2] if rank == 0 else [3, 4]
    rows = values(rank, dtype, (sum(sent), 2))
    out = torch.zeros(sum(received), 2, dtype=dtype, device="hpu")
    dist.all_to_all_single(out, rows.to("hpu"), received, sent)
    from_0, from_1 = values(0, dtype, (4, 2)), values(1, dtype, (6, 2))
    equal(out, torch.cat([from_0[:1], from_1[:2]]) if rank == 0 else torch.cat([from_0[1:], from_1[2:]]))

    def part(source, to):
        return values(3 * source + to, dtype, (1 + source + to, 2))

    outputs = [torch.zeros(1 + other + rank, 2, dtype=dtype, device="hpu") for other in range(2)]
    dist.all_to_all(outputs, [part(rank, other).to("hpu") for other in range(2)])
    for other in range(2):
        equal(outputs[other], part(other, rank))
    outputs = [torch.zeros(1 + other, 2, dtype=dtype, device="hpu") for other in range(2)]
    dist.all_gather(outputs, part(rank, 0).to("hpu"))
    for other in range(2):
        equal(outputs[other], part(other, 0))


@ranks(2)
def test_parts_that_do_not_fit():
    whole = torch.zeros(4, device="hpu")
    for call in (
        lambda: dist.all_gather([whole[:1], whole[:2]], whole[:3]),
        lambda: dist.reduce_scatter(whole[:3], [whole[:1], whole[:2]]),
    ):
        with pytest.raises(ValueError, match="must have as many elements as this rank's own tensor"):
            call()


@ranks(2)
def test_coalesced():
    rank = dist.get_rank()
    tensors = [on_hpu(rank), on_hpu(rank + 2, shape=(5,))]
    with dist._coalescing_manager(device=torch.device("hpu")):
        for t in tensors:
            dist.all_reduce(t)
    equal(tensors[0], values(0) + values(1))
    equal(tensors[1], values(2, shape=(5,)) + values(3, shape=(5,)))
    dist.all_reduce_coalesced(tensors)
    equal(tensors[0], 2 * (values(0) + values(1)))
    outputs = [torch.zeros(6, 4, device="hpu"), torch.zeros(10, device="hpu")]
    with dist._coalescing_manager(device=torch.device("hpu"), async_ops=True) as manager:
        for out, shape in zip(outputs, ((3, 4), (5,)), strict=True):
            dist.all_gather_into_tensor(out, on_hpu(rank, shape=shape))
    manager.wait()
    equal(outputs[0], torch.cat([values(0), values(1)]))


@ranks(2)
def test_messages_in_both_directions_at_once():
    rank = dist.get_rank()
    mine = on_hpu(rank, shape=(1 << 16,))
    other = torch.zeros(1 << 16, device="hpu")
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)]
    ):
        work.wait()
    equal(other, values(1 - rank, shape=(1 << 16,)))
    # Without waiting for the first before the second, too.
    sent = dist.isend(mine, 1 - rank)
    dist.irecv(other.zero_(), 1 - rank).wait()
    sent.wait()
    equal(other, values(1 - rank, shape=(1 << 16,)))


@ranks(2)
def test_messages_with_tags_and_from_anybody():
    rank = dist.get_rank()
    if rank == 0:
        dist.send(on_hpu(1), 1, tag=7)
        dist.send(on_hpu(2), 1, tag=8)
    else:
        first, second = torch.zeros(3, 4, device="hpu"), torch.zeros(3, 4, device="hpu")
        works = [dist.irecv(second, 0, tag=8), dist.irecv(first, 0, tag=7)]
        for work in works:
            work.wait()
        equal(first, values(1))
        equal(second, values(2))
    x = on_hpu(rank)
    if rank == 1:
        dist.send(x, 0)
    else:
        assert dist.recv(x) == 1
        equal(x, values(1))


@ranks(2)
def test_objects():
    rank = dist.get_rank()
    everything = [None, None]
    dist.all_gather_object(everything, {"rank": rank})
    assert everything == [{"rank": 0}, {"rank": 1}]
    objects = ["a", 3] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, src=0)
    assert objects == ["a", 3]


@ranks(2, backend=None)
def test_the_backend_is_found_by_itself():
    dist.init_process_group()  # from torchrun's variables
    assert dist.get_backend_config() == "hpu:hccl"
    x = torch.ones(3, device="hpu")
    dist.all_reduce(x)
    assert x.tolist() == [2.0, 2.0, 2.0]


@ranks(2, backend=None)
def test_split_group():
    dist.init_process_group("hccl", device_id=torch.device("hpu:0"))
    part = dist.split_group(split_ranks=[[0], [1]])
    x = torch.ones(2, device="hpu")
    dist.all_reduce(x, group=part)
    assert x.tolist() == [1.0, 1.0]
    last = dist.new_group([1])  # without this rank 0
    if dist.get_rank() == 1:
        dist.all_reduce(x, group=last)
        assert x.tolist() == [1.0, 1.0]


@ranks(8)
def test_eight_ranks():
    """As many as a Gaudi node has cards, however few cores there are."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.full((1000,), float(rank), device="hpu")
    dist.all_reduce(x)
    parts = [torch.empty(3, device="hpu") for _ in range(size)]
    dist.all_gather(parts, torch.full((3,), rank * 2.0, device="hpu"))
    received, sent = torch.empty(size, device="hpu"), torch.full((size,), float(rank), device="hpu")
    dist.all_to_all_single(received, sent)
    assert x.tolist() == [28.0] * 1000
    assert [p[0].item() for p in parts] == [2.0 * r for r in range(size)]
    assert received.tolist() == [float(r) for r in range(size)]
    pair = dist.new_subgroups(2)[0]
    y = torch.tensor([float(rank)], device="hpu")
    dist.all_reduce(y, group=pair)
    assert y.item() == rank + (rank ^ 1)
