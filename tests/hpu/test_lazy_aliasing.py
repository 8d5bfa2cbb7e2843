"""Memory that tensors share, while it is only promised: one graph knows who aliases whom."""

import pytest
import torch

from .support import to_cpu

N = 10


def mutate_through_a_view(b):
    v = b[:4]
    c = b * 2
    v.add_(1)
    return c, b.clone(), v.clone()


def mutate_the_base(b):
    v = b.view(2, 5)
    b.mul_(3)
    return v + 0, v.sum(1)


def read_after_write_through_strides(b):
    b[::2] = b[1::2] + 100
    return b.view(5, 2).t()


def set_to_the_same_storage(b):
    v = torch.empty(0, device=b.device).set_(b.untyped_storage(), 3, (4,), (1,))
    v.zero_()
    return v


def view_of_a_pending_storage(b):
    c = b + 1  # pending
    v = c[2:6]
    w = c.view(5, 2).t()
    v.mul_(10)
    d = w.clone()
    w[0].zero_()
    return c, v, w, d


def overlapping_windows(b):
    windows = (b + 0).unfold(0, 4, 2)
    sums = windows.sum(1)
    windows[1].fill_(7)
    return sums, windows.sum(1)


def a_view_outlives_its_base(b):
    v = (b * 3)[4:]
    v.add_(1)
    return v


def rebound(b):
    for _ in range(5):
        b = b * 2
        b[1:] += b[:-1].clone()
    return b


def out_into_a_view(b):
    c = torch.zeros(2, N, device=b.device)
    torch.add(b, 1, out=c[0])
    torch.mul(c[0], 2, out=c[1])
    return c


def resized_out(b):
    out = torch.empty(0, device=b.device)
    torch.add(b, 1, out=out)
    return out[2:] * 2, out


def dtype_view(b):
    bits = (b + 0).view(torch.int32)
    bits.bitwise_xor_(-(2**31))  # the sign
    return bits.view(torch.float32)


def complex_parts(b):
    z = torch.view_as_complex((b + 0).view(5, 2))
    conjugate = z.conj()
    z.sin_()
    return torch.view_as_real(conjugate.resolve_conj()), z.real, z.imag.clone()


PROGRAMS = [
    mutate_through_a_view,
    mutate_the_base,
    read_after_write_through_strides,
    set_to_the_same_storage,
    view_of_a_pending_storage,
    overlapping_windows,
    a_view_outlives_its_base,
    rebound,
    out_into_a_view,
    resized_out,
    dtype_view,
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("start", ["contents", "pending"])
def test_one_graph_gives_the_values_of_the_cpu(program, start, one_graph):
    """The argument is an input of the graph, or memory that the same graph makes."""
    host = torch.arange(float(N)) - 4
    expected = program(host.clone())
    source = host.to("hpu")
    if start == "pending":
        actual = one_graph(lambda: program(source.clone()))
    else:
        copies = [source.clone(), source.clone()]
        torch.hpu.synchronize()
        left = list(copies)
        actual = one_graph(lambda: program(left.pop()))
        program(host)
        assert torch.equal(copies[0].cpu(), host)
    torch.testing.assert_close(to_cpu(actual), expected, rtol=0, atol=0)


def test_complex_numbers_are_a_fallback_and_keep_sharing(counted):
    host = torch.arange(float(N))
    for _ in range(2):
        source = host.to("hpu")
        with counted() as work:
            actual = complex_parts(source)
        torch.testing.assert_close(to_cpu(actual), complex_parts(host), rtol=0, atol=0)
    assert work["ops_fallback"] > 0
    assert work["ops_recorded"] > 0


def test_the_address_of_a_pending_tensor_is_that_of_its_contents(counted):
    """Also of what is recorded after it was read."""

    def program():
        x = torch.full((6,), 2.0, device="hpu")
        return x, (x * 3)[2:]

    program()
    torch.hpu.synchronize()
    x, y = program()
    with counted(graphs_flushed=1):
        address = x.data_ptr()
    assert address == x.untyped_storage().data_ptr() != 0
    assert y.data_ptr() == y.untyped_storage().data_ptr() + 8
    with counted(graphs_flushed=0):
        assert x.data_ptr() == address
    assert y.tolist() == [6.0] * 4
    x.add_(1)
    x[1:].mul_(5)
    assert x.data_ptr() == address
    assert x.tolist() == [3.0, *[15.0] * 5]


def test_sizes_of_a_pending_storage_are_known_without_a_step(counted):
    x = torch.ones(3, 5, device="hpu")
    x + 1
    torch.hpu.synchronize()
    y = x + 1
    with counted(graphs_flushed=0):
        assert y.untyped_storage().nbytes() == y.nbytes == 60
        assert y.untyped_storage().device == torch.device("hpu", 0)
        assert y[1].storage_offset() == 5
        assert y.t().stride() == (1, 5)
        assert y[1]._base is None or y[1]._base is y


def test_a_result_that_only_the_graph_needs_is_not_overwritten_by_one_that_is_kept():
    """A kernel that allocates in another order than for other strides may put the one where the other belongs."""
    weight, images, grad = torch.randn(4, 4, 3), torch.randn(1, 4, 1), torch.randn(1, 4, 1)

    def program(weight, images, grad):
        def backward(grad):
            convolved = ([4], [1], [1], [1], False, [0], 1, [True, True, True])
            return torch.ops.aten.convolution_backward(grad, images, weight, *convolved)

        kept = backward(grad)
        of_input, of_weight, of_bias = backward(grad.new_ones(()).expand(1, 4, 1))
        return kept[0] + of_input, of_weight, of_bias

    expected = program(weight, images, grad)
    for _ in range(3):
        found = program(weight.to("hpu"), images.to("hpu"), grad.to("hpu"))
        torch.testing.assert_close(to_cpu(found), expected)
