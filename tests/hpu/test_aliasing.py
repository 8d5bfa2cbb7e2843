"""Tensors that share memory: values follow, and what PyTorch refuses is refused."""

import pytest
import torch

from .support import agree, agree_on_error


def base():
    """Ten different numbers."""
    return torch.arange(10.0)


def mutate_through_a_view(b):
    v = b[:4]
    c = b * 2
    v.add_(1)
    return c, b.clone(), v.clone()


def mutate_the_base(b):
    v = b.view(2, 5)
    b.mul_(3)
    return v + 0, v.sum(1)


def swap_halves(b):
    b[:5], b[5:] = b[5:].clone(), b[:5].clone()
    return b


def read_after_write_through_strides(b):
    b[::2] = b[1::2] + 100
    return b.view(5, 2).t()


def write_transposed(b):
    m = b.view(2, 5)
    m.t().copy_(torch.arange(10.0, device=b.device).view(5, 2))
    return m


def same_tensor_twice(b):
    return torch.add(b, b), torch.mul(b, b, out=b)


def out_is_an_input(b):
    torch.add(b, 1, out=b)
    torch.cumsum(b, 0, out=b)
    return b


def copy_to_itself(b):
    b.copy_(b)
    b.view(2, 5).copy_(b.view(2, 5))
    return b


def expanded_source(b):
    return torch.empty(4, 10, device=b.device).copy_(b.expand(4, 10))


def index_put_into_a_view(b):
    v = b[2:8]
    v[torch.tensor([0, 3], device=b.device)] = -1.0
    return v


def foreach_on_views(b):
    parts = list(b.split(5))
    torch._foreach_mul_(parts, 2.0)
    return parts


def set_to_the_same_storage(b):
    v = torch.empty(0, device=b.device).set_(b.untyped_storage(), 3, (4,), (1,))
    v.zero_()
    return v


def roll_in_place(b):
    b.copy_(b.roll(1))
    b.copy_(b.flip(0))
    return b


PROGRAMS = [
    mutate_through_a_view, mutate_the_base, swap_halves, read_after_write_through_strides, write_transposed,
    same_tensor_twice, out_is_an_input, copy_to_itself, expanded_source, index_put_into_a_view, foreach_on_views,
    set_to_the_same_storage, roll_in_place,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_shared_memory_has_the_values_of_the_cpu_at_first_and_at_second_sight(program):
    agree(program, base())
    agree(program, base())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_shared_memory_has_the_same_values_when_everything_is_queued(program, gate):
    expected = program(base().to("hpu"))
    x = base().to("hpu")
    with gate:
        actual = program(x)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


REFUSED = {
    "partial overlap in place": lambda b: b[1:].add_(b[:-1]),
    "partial overlap of out": lambda b: torch.add(b[:-1], 1, out=b[1:]),
    "partial overlap of copy": lambda b: b[1:].copy_(b[:-1]),
    "expanded destination": lambda b: b[:1].expand(4).add_(1),
    "expanded copy": lambda b: b[:1].expand(4).copy_(b[:4]),
    "expanded fill": lambda b: b[:1].expand(4).mul_(2),
    "cat into itself": lambda b: torch.cat([b[:3], b[3:6]], out=b[:6]),
    "index_add overlap": lambda b: b[:1].expand(4).index_add_(0, torch.tensor([0], device=b.device), b[:1]),
    "scatter overlap": lambda b: b.scatter_(0, torch.tensor([1, 2], device=b.device), b[:2]),
    "gather overlap": lambda b: torch.gather(b, 0, torch.arange(3, device=b.device), out=b[1:4]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_overlap_that_pytorch_refuses_is_refused_also_when_disjoint_operands_were_seen(name):
    agree_on_error(REFUSED[name], base())
    torch.hpu.synchronize()
    # The same shapes and strides on disjoint memory are fine, and must not teach that the overlap is.
    x, y = torch.ones(9, device="hpu"), torch.ones(9, device="hpu")
    for _ in range(2):
        x.add_(y)
        x.copy_(y)
        torch.add(x, 1, out=y)
    agree_on_error(REFUSED[name], base())


def test_a_refused_overlap_is_an_error_of_the_call_itself():
    """Its kernel ran before the call returned: what is known of disjoint operands says nothing of these."""
    x, y, b = torch.ones(7, device="hpu"), torch.ones(7, device="hpu"), torch.arange(8.0, device="hpu")
    for _ in range(2):
        x.add_(y)
    torch.hpu.synchronize()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            b[1:].add_(b[:-1])
    torch.hpu.synchronize()


def test_two_storages_of_equal_shape_are_not_mistaken_for_one():
    def program(a, b):
        torch.add(a, b, out=a)
        return a, b

    x = base().to("hpu")
    program(x, x)  # teaches the aliased case
    agree(program, base(), base() * 2)
    y = base().to("hpu")
    program(y, y)
    assert y.tolist() == (base() * 2).tolist()
