"""Copies between and within devices: every dtype, layout and size."""

import pytest
import torch

from .support import capture

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.uint16,
    torch.uint32,
    torch.uint64,
]


def values(dtype):
    """Small numbers that every dtype can hold."""
    return (torch.arange(24) % 5).view(4, 6).to(dtype)


@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")  # the CPU warns as well
def test_every_dtype_converts_to_every_other_as_on_the_cpu(source):
    x = values(source)
    for target in DTYPES:
        expected = x.to(target)
        for actual in (
            x.to("hpu", target),  # from the host
            x.to("hpu").to(target),  # on the device
            torch.empty_like(x, dtype=target, device="hpu").copy_(x),
        ):
            assert actual.dtype == target
            assert torch.equal(actual.cpu().view(torch.uint8), expected.view(torch.uint8)), (source, target)
        host = torch.empty_like(x, dtype=target).copy_(x.to("hpu"))  # to the host
        assert torch.equal(host.view(torch.uint8), expected.view(torch.uint8)), (source, target)


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "strided": lambda x: x[::2, 1::2],
    "offset": lambda x: x[1:, 2:],
    "expanded": lambda x: x[:1].expand(4, 6),
    "flipped": lambda x: x.flip(0),
    "one column": lambda x: x[:, 3],
    "no elements": lambda x: x[:0],
    "no dimensions": lambda x: x[1, 1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("direction", ["h2d", "d2h", "d2d"])
def test_every_layout_is_copied(layout, direction):
    x = LAYOUTS[layout](torch.arange(24.0).view(4, 6))
    source = LAYOUTS[layout](torch.arange(24.0).view(4, 6).to("cpu" if direction == "h2d" else "hpu"))
    to = "cpu" if direction == "d2h" else "hpu"
    assert torch.equal(source.to(to, copy=True).cpu(), x)
    for shape in (x.shape, (*x.shape, 2)):
        target = torch.full(shape, -1.0, device=to)
        view = target if shape == x.shape else target[..., 1]
        view.copy_(source)
        assert torch.equal(view.cpu(), x)
        if shape != x.shape:
            assert (target[..., 0] == -1).all().item()


@pytest.mark.parametrize("direction", ["h2d", "d2h", "d2d"])
def test_a_source_is_broadcast_and_what_does_not_fit_or_overlaps_is_refused_at_the_call(direction):
    source = torch.arange(3.0, device="cpu" if direction == "h2d" else "hpu")
    target = torch.zeros(2, 3, device="cpu" if direction == "d2h" else "hpu")
    assert target.copy_(source).cpu().tolist() == [[0, 1, 2], [0, 1, 2]]
    with pytest.raises(RuntimeError):
        target.copy_(torch.zeros(4, device=source.device))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="single memory location"):
            target[0, :1].expand(3).copy_(source)
    torch.hpu.synchronize()  # nothing is pending


def test_a_copy_of_a_view_onto_itself_does_nothing():
    x = torch.arange(3.0, device="hpu").expand(2, 3)
    for source in (x, x[:]):
        x.copy_(source)
    x[:] = x
    with pytest.raises(RuntimeError, match="single memory location"):
        x.copy_(x.flip(1))
    z = torch.tensor([1 + 2j], device="hpu")
    assert x.tolist() == [[0, 1, 2]] * 2
    assert z.copy_(z.conj()).tolist() == [1 - 2j]


def test_conjugated_and_negated_views_are_resolved():
    x = torch.tensor([1 + 2j, 3 - 4j])
    assert torch.equal(x.conj().to("hpu").cpu(), x.conj())
    assert torch.equal(x.to("hpu").conj().cpu().resolve_conj(), x.conj().resolve_conj())
    assert torch.equal(x.to("hpu").conj().imag.cpu(), x.conj().imag.resolve_neg())
    assert torch.equal(torch.zeros(2, dtype=x.dtype, device="hpu").copy_(x.conj()).cpu(), x.conj().resolve_conj())


@pytest.mark.parametrize("size", [1, 1000, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 3_000_000])
@pytest.mark.parametrize("non_blocking", [False, True])
def test_copies_of_every_size(size, non_blocking):
    x = torch.arange(size) % 251
    y = x.to("hpu", non_blocking=non_blocking)
    assert torch.equal(y.cpu(), x)
    y.copy_(x.flip(0), non_blocking=non_blocking)
    assert torch.equal(y.cpu(), x.flip(0))


# As a script may have them: bytes of other numbers, viewed as bool.
BYTES = torch.arange(48, dtype=torch.uint8).view(6, 8)


def byte_for_byte(x, expected):
    assert x.dtype == torch.bool
    assert torch.equal(x.view(torch.uint8).cpu(), expected)


@pytest.mark.parametrize("non_blocking", [False, True])
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided", "one column"])
def test_bools_are_copied_byte_by_byte(layout, pinned, non_blocking):
    cut = LAYOUTS[layout]
    expected = cut(BYTES)
    host = BYTES.pin_memory() if pinned else BYTES.clone()
    bools = cut(host).view(torch.bool)
    there = bools.to("hpu", non_blocking=non_blocking)
    byte_for_byte(there, expected)  # to the device
    target = cut(torch.zeros_like(BYTES, device="hpu")).view(torch.bool)
    byte_for_byte(target.copy_(bools, non_blocking=non_blocking), expected)
    again = cut(torch.zeros_like(BYTES, device="hpu")).view(torch.bool).copy_(there)
    for copied in (again, again.clone(), again.contiguous(), there.to("hpu", copy=True)):  # on the device
        byte_for_byte(copied, expected)
    back = torch.zeros_like(host, pin_memory=pinned)
    cut(back).view(torch.bool).copy_(again, non_blocking=non_blocking)  # to the host
    new = again.to("cpu", non_blocking=non_blocking)
    torch.hpu.synchronize()
    assert torch.equal(cut(back), expected)
    byte_for_byte(new, expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.int64], ids=str)
def test_bools_of_other_bytes_are_converted_as_on_the_cpu(dtype):
    bools = BYTES.view(torch.bool)
    assert torch.equal(bools.to("hpu").to(dtype).cpu(), bools.to(dtype))


def test_a_graph_copies_bools_byte_by_byte():
    host = BYTES.view(torch.bool)
    there = BYTES.flip(0).contiguous().to("hpu").view(torch.bool)
    target, other = torch.zeros_like(there), torch.zeros_like(there)

    def work():
        target.copy_(host)
        other.copy_(there)
        return there.t().contiguous()

    graph, result = capture(work)
    for _ in range(2):
        byte_for_byte(target, BYTES)
        byte_for_byte(other, BYTES.flip(0))
        byte_for_byte(result, BYTES.flip(0).t())
        for tensor in (target, other, result):
            tensor.zero_()
        graph.replay()


def test_copies_and_their_bytes_are_counted(counted):
    host = torch.arange(10.0)
    with counted(copies_h2d=1, bytes_h2d=40):
        there = host.to("hpu")
        torch.hpu.synchronize()
    with counted(copies_d2h=1, bytes_d2h=20):
        there[:5].cpu()
