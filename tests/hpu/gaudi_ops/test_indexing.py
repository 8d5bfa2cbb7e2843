"""Caches, gathering, products and small functions, against what PyTorch or a loop computes."""

import pytest
import torch

from tests.hpu.support import close, wide

ops = torch.ops.hpu


def reordered(cache, *given):
    """In place, what that returns and what it writes to, and as a new tensor."""
    copy = cache.clone()
    return ops.kv_reorder_(copy, *given), copy, ops.kv_reorder(cache, *given)


@pytest.mark.parametrize("as_bytes", [True, False])
def test_a_cache_is_reordered_between_two_positions(everywhere, as_bytes):
    cache = torch.randn(8, 2, 6, 3)
    start, end = torch.tensor([1, 2]), torch.tensor([4, 6])
    beams = torch.randint(0, 4, (2, 4))
    given = (
        (beams << torch.tensor([0, 2, 4, 6])).sum(1).to(torch.uint8)
        if as_bytes
        else (beams + torch.tensor([[0], [4]])).reshape(-1)
    )
    expected = cache.clone()
    for group in range(2):
        for beam in range(4):
            part = slice(int(start[group]), int(end[group]))
            expected[group * 4 + beam, :, part] = cache[group * 4 + int(beams[group, beam]), :, part]

    for result in everywhere(reordered, cache, start, end, given):
        assert torch.equal(result, expected)


def test_a_cache_of_five_dimensions_that_is_a_view(native):
    whole = torch.arange(2.0 * 4 * 6 * 2 * 3).reshape(4, 2, 3, 6, 2)
    cache = whole.transpose(2, 3)[:, :, 1:5]  # length 4 of 6 and groups of 3 change places
    start, end, beams = torch.tensor([0]), torch.tensor([2]), torch.tensor([0b00011011], dtype=torch.uint8)

    def work(cache, start, end, beams):
        ops.kv_reorder_(cache, start, end, beams)
        return cache

    result = native(work, cache, start, end, beams)
    expected = cache.clone()
    expected[..., :2, :] = cache[torch.tensor([3, 2, 1, 0])][..., :2, :]
    assert torch.equal(result, expected)


def test_a_cache_with_a_dimension_of_beams(native):
    cache = torch.randn(3, 4, 6, 2, 5).transpose(2, 3)  # [batch, 4, heads, length, dimension]
    start, end, beams = torch.tensor([1, 0, 3]), torch.tensor([4, 6, 3]), torch.tensor([27, 228, 0], dtype=torch.uint8)
    expected = cache.clone()
    expected[0, :, :, 1:4] = cache[0, [3, 2, 1, 0]][:, :, 1:4]  # 228 leaves them in their order
    for result in native(reordered, cache, start, end, beams):
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
    y, grads = native(lambda g, a, b: (ops.matmul(a, b), ops.matmul_bwd(g, a, b)), grad, a, b)
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
