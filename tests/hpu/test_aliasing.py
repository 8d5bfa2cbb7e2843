"""Tensors that share memory: values follow, and what PyTorch refuses is refused."""

import pytest
import torch

from .support import agree, agree_on_error


def base():
    """Ten different numbers."""
    return torch.arange(10.0)


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
