"""Random operators with seed tensors: what the seed says, with the right moments."""

import pytest
import torch

ops = torch.ops.hpu
N = 20000


def seed(value):
    return torch.tensor([value], dtype=torch.int32)


def test_a_seed_says_it_all(native, everywhere):
    def work(s):
        return ops.habana_rand(s, [100]), ops.habana_randint(s, 0, 1000, [100])

    first, second = everywhere(work, seed(3)), native(work, seed(4))
    assert all(not torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_integers_permutations_and_bernoulli(native):
    x = native(lambda s: ops.habana_randint(s, -3, 4, [N]), seed(2))
    assert x.dtype is torch.int64
    assert (torch.bincount(x + 3, minlength=7) > N / 7 * 0.9).all()
    assert x.min() == -3
    assert x.max() == 3
    order = native(lambda s: ops.habana_randperm(s, 100), seed(2))
    assert torch.equal(order.sort().values, torch.arange(100))
    assert not torch.equal(order, torch.arange(100))
    p = torch.full((N,), 0.3)
    for result in native(
        lambda s, p: (ops.habana_bernoulli(s, p), ops.habana_bernoulli(s, p, 0.3), ops.habana_bernoulli(s, p, p)),
        seed(2),
        p,
    ):
        assert abs(result.double().mean() - 0.3) < 0.02
        assert result.dtype is torch.float32


def test_dropout(native):
    x = torch.ones(N)
    y, keep = native(lambda s, x: ops.habana_native_dropout(s, x, 0.25, True), seed(2), x)
    assert torch.equal(y, keep / 0.75)
    assert abs(keep.double().mean() - 0.75) < 0.02
    y, keep = native(lambda s, x: ops.habana_native_dropout(s, x, 0.25, False), seed(2), x)
    assert torch.equal(y, x)
    assert keep.all()


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial(native, replacement):
    weights = torch.tensor([0.1, 0.0, 0.6, 0.3]).expand(N, 4).contiguous()
    x = native(lambda s, w: ops.habana_multinomial(s, w, 2, replacement), seed(5), weights)
    first = torch.bincount(x[:, 0], minlength=4).double() / N
    torch.testing.assert_close(first, weights[0].double(), rtol=0, atol=0.02)
    assert (x[:, 0] != x[:, 1]).all() != replacement


def test_generated_seeds(native):
    x = native(lambda s, c: ops.habana_seed_generator(s, c, 5), seed(1), seed(0))
    y = native(lambda s, c: ops.habana_seed_generator(s, c, 5), seed(1), seed(1))
    assert x.dtype is torch.int32
    assert len({*x.tolist(), *y.tolist()}) == 10
    assert (x >= 0).all()
    torch.manual_seed(0)
    drawn = ops.habana_random_seed(torch.ones(1, device="hpu"))
    torch.manual_seed(0)
    assert torch.equal(drawn, ops.habana_random_seed(torch.ones(1, device="hpu")))


def test_uniform_and_normal_numbers_have_their_moments(native):
    like = torch.empty(N, dtype=torch.float64)
    uniform = native(lambda s, like: ops.habana_uniform(s, like, -2.0, 4.0), seed(2), like)
    assert uniform.dtype is torch.float64
    assert uniform.min() >= -2.0
    assert uniform.max() < 4.0
    assert abs(uniform.mean() - 1.0) < 0.05
    assert abs(uniform.var() - 3.0) < 0.1
    normal = native(lambda s: ops.habana_randn(s, [N // 2, 2], dtype=torch.float64), seed(2))
    assert normal.dtype is torch.float64
    assert abs(normal.mean()) < 0.03
    assert abs(normal.var() - 1.0) < 0.05
    assert abs(normal.pow(4).mean() - 3.0) < 0.3
    first, second = normal[:, 0], normal[:, 1]
    assert abs((first * second).mean()) < 0.05  # neighbours have nothing to do with each other
    assert not torch.equal(normal, native(lambda s: ops.habana_randn(s, [N // 2, 2], dtype=torch.float64), seed(3)))
