"""Tensors of many elements: what operators on them take beside them is bounded."""

import pytest
import torch

_MORE_THAN_A_BLOCK = (1 << 24) + 5  # csrc/run/BlockedSum


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.bool])
def test_sums_of_small_integers_block_by_block(dtype):
    x = torch.randint(0, 2 if dtype is torch.bool else 100, (_MORE_THAN_A_BLOCK,)).to(dtype)
    y = x.to("hpu")
    assert y.sum().item() == x.sum().item()
    assert y[:-5].view(1 << 12, 1 << 12)[:, 1:].sum().item() == x[:-5].view(1 << 12, 1 << 12)[:, 1:].sum().item()


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2, (0, 2), (-1, 1), (0, 1, 2)])
def test_sums_along_dimensions_block_by_block(dim, keepdim):
    x = torch.randint(-100, 100, (3, 1 << 22, 3), dtype=torch.int8)
    assert torch.equal(x.to("hpu").sum(dim, keepdim).cpu(), x.sum(dim, keepdim))


def test_a_dimension_named_twice_or_out_of_range():
    x = torch.zeros(_MORE_THAN_A_BLOCK, dtype=torch.int8, device="hpu")
    with pytest.raises(RuntimeError, match="dim"):
        x.sum((0, 0)).cpu()
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.sum(3).cpu()


def test_more_than_two_to_the_31_elements(script):
    """Elementwise, sum, index, copy; the process never holds more than the tensors and 1 GiB beside them."""
    script("""
import resource
n = 2**31 + 8
x = torch.zeros(n, dtype=torch.int8, device="hpu")
x += 1
x[n - 1] = 100
x[2**31] = -7
assert x.sum().item() == n - 2 + 93
assert x[-1].item() == 100
assert x[2**31].item() == -7
assert x.index_select(0, torch.tensor([n - 1, 2**31, 0], device="hpu")).tolist() == [100, -7, 1]
assert x[2**31 - 1 :].cpu().tolist() == [1, -7, 1, 1, 1, 1, 1, 1, 100]
y = x[8:].clone()
assert y[2**31 - 1].item() == 100
assert y[2**31 - 8].item() == -7
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < (2 * n + 2**30) // 1024
""")
