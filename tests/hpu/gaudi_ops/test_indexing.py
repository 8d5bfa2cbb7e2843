"""Caches, gathering, products and small functions, against what PyTorch or a loop computes."""

import pytest
import torch

from tests.hpu.support import close, wide

ops = torch.ops.hpu


def reordered(cache, *given):
    """In place, what that returns and what it writes to, and as a new tensor."""
    copy = cache.clone()
    return ops.kv_reorder_(copy, *given), copy, ops.kv_reorder(cache, *given)


def packed(beams):
    """A byte for each four beams, [batch, 4], the first in the highest bits."""
    return (beams * torch.tensor([64, 16, 4, 1])).sum(1).to(torch.uint8)


def slices_moved(cache, start, end, beams):
    """Of each entry of the batch the positions from start to end in the order of `beams`, along its first dimension."""
    expected = cache.clone()
    for i, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        expected[i][..., first:last, :] = cache[i][beams[i]][..., first:last, :]
    return expected


CACHES = {
    "four dimensions": lambda: torch.randn(3, 4, 6, 5),
    "five dimensions": lambda: torch.randn(3, 4, 2, 6, 5),
    "six dimensions": lambda: torch.randn(3, 4, 2, 2, 6, 5),
    "heads and length exchanged": lambda: torch.randn(3, 4, 6, 2, 5).transpose(2, 3),
    "beams last in memory": lambda: torch.randn(3, 2, 6, 5, 4).permute(0, 4, 1, 2, 3),
    "batch and beams exchanged": lambda: torch.randn(4, 3, 2, 6, 5).transpose(0, 1),
    "a part of a longer cache": lambda: torch.randn(3, 4, 2, 9, 5)[:, :, :, 2:8],
    "every second entry": lambda: torch.randn(6, 4, 2, 6, 10)[::2, ..., ::2],
    "as many heads as beams": lambda: torch.randn(3, 4, 4, 6, 5),
    "bfloat16": lambda: torch.randn(3, 4, 2, 6, 5).bfloat16(),
}


@pytest.mark.parametrize("case", CACHES)
def test_each_entry_of_the_batch_has_its_beams_reordered(everywhere, case):
    cache = CACHES[case]()
    start, end, beams = torch.tensor([1, 0, 3]), torch.tensor([4, 6, 3]), torch.randint(0, 4, (3, 4))
    beams[0] = torch.tensor([3, 0, 0, 1])  # its own inverse under no other order of the bits
    for result in everywhere(reordered, cache, start, end, packed(beams)):
        assert torch.equal(result, slices_moved(cache, start, end, beams))


def test_a_cache_is_written_through_a_view(native):
    whole, beams = torch.randn(2, 4, 6, 2, 3), torch.tensor([[1, 1, 2, 0], [3, 2, 1, 0]])
    start, end = torch.tensor([1, 0]), torch.tensor([3, 4])

    def work(whole, *given):
        ops.kv_reorder_(whole.transpose(2, 3)[..., 1:5, :], *given)
        return whole

    expected = whole.clone()
    part = whole.transpose(2, 3)[..., 1:5, :]
    expected.transpose(2, 3)[..., 1:5, :] = slices_moved(part, start, end, beams)
    assert torch.equal(native(work, whole, start, end, packed(beams)), expected)


@pytest.mark.parametrize("as_bytes", [True, False])
def test_beams_in_the_first_dimension(everywhere, as_bytes):
    cache, start, end = torch.randn(8, 2, 6, 3), torch.tensor([1, 2]), torch.tensor([4, 6])
    beams = torch.randint(0, 4, (2, 4))
    given = packed(beams) if as_bytes else (beams + torch.tensor([[0], [4]])).reshape(-1)
    expected = slices_moved(cache.reshape(2, 4, 2, 6, 3), start, end, beams).reshape(cache.shape)
    for result in everywhere(reordered, cache, start, end, given):
        assert torch.equal(result, expected)


def test_interleaving_and_indexing(native):
    x = torch.arange(8.0).reshape(8, 1)
    first, again = native(lambda x: (ops.in_place_interleave(x), ops.in_place_interleave_(x.clone())), x)
    assert first.flatten().tolist() == [0.0] * 4 + [1.0] * 4
    assert torch.equal(first, again)
    indices = [torch.tensor([1, 7], dtype=torch.int32), torch.tensor([0, 0])]
    assert native(lambda x, i: ops.plain_index(x, i), x, indices).tolist() == [1.0, 7.0]


@pytest.mark.parametrize("name", ["exp", "sqrt", "rsqrt"])
def test_fast_functions_are_exact(native, name):
    x = torch.rand(20) + 0.1
    close(native(getattr(ops, name + "_fast_math"), x), getattr(torch, name)(x.double()), 1e-6, 0)


SHAPES = [((3, 4), (4, 5)), ((4,), (4, 5)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (6, 4, 5)), ((4,), (4,))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_gradients_of_products(native, shapes):
    a, b = torch.randn(shapes[0]), torch.randn(shapes[1])
    both = wide([a, b])
    product = torch.matmul(*both)
    grad = torch.randn(product.shape)
    product.backward(grad.double())
    y, grads, same = native(
        lambda g, a, b: (ops.matmul(a, b), ops.matmul_bwd(g, a, b), ops.matmul_backward(g, a, b)), grad, a, b
    )
    assert all(map(torch.equal, grads, same))  # it has two names
    close([y, *grads], [product, *(t.grad for t in both)], atol=1e-5)


def test_linear_and_masked_products(native):
    given = [torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5)]
    grad = torch.randn(2, 3, 5)
    every = wide(given)
    exact = torch.nn.functional.linear(*every)
    exact.backward(grad.double())
    y, grads = native(
        lambda x, w, b, g: (ops.linear(x, w, b), ops.linear_backward(x, g, w, [True, True, True])), *given, grad
    )
    close([y, *grads], [exact, *(t.grad for t in every)], atol=1e-5)
    a, b, c, d = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 3, 1), torch.randn(2, 5, 1)
    y = native(lambda *t: ops.masked_batch_gemm(*t, False, True), a, b, c, d)
    close(y, a.double() @ b.double().mT + c.double() @ d.double().mT)


def test_gradients_accumulate_and_autocast_lowers():
    variables = [torch.zeros(2, device="hpu", requires_grad=True) for _ in range(2)]
    grads = [torch.ones(2, device="hpu")] * 2
    ops.accumulate_grads_(variables, grads)
    ops.accumulate_grads_(variables, grads)
    assert variables[0].grad.tolist() == [2.0, 2.0]
    assert grads[0].tolist() == [1.0, 1.0]
    ops.custom_foreach_add_([v.grad for v in variables], grads)
    assert variables[1].grad.tolist() == [3.0, 3.0]
    x = torch.ones(2, 2, device="hpu")
    with torch.autocast("hpu"):
        assert ops.linear(x, x).dtype is ops.matmul(x, x).dtype is torch.bfloat16


def test_copies_are_copies():
    x = torch.ones(2, device="hpu")
    for copy in (ops.identity(x), ops.weight_permutation(x)):
        copy.zero_()
    assert x.tolist() == [1.0, 1.0]
