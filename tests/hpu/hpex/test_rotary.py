"""The helpers of rotary embeddings call torch.ops.hpu.rotary_pos_embedding, whose numbers are tested there."""

import pytest
import torch

from openhpu.interface.hpex import rotary
from tests.hpu.support import close

ops = torch.ops.hpu


def inputs():
    x, angle = torch.randn(2, 3, 5, 8, device="hpu"), torch.rand(9, 8, device="hpu")
    return x, angle.cos(), angle.sin(), torch.randint(0, 9, (2, 5), device="hpu")


def test_the_first_two_helpers():
    x, cos, sin, ids = inputs()
    pairwise = rotary.RotaryPosEmbeddingMode.PAIRWISE
    for found, *more in (
        (rotary.RotaryPosEmbeddingHelperV1.apply(x, cos, sin, 3), None, 3, 0),
        (rotary.RotaryPosEmbeddingHelperV2.apply(x, cos, sin, ids), ids, 0, 0),
        (rotary.apply_rotary_pos_emb(x, cos, sin, ids, 0, pairwise), ids, 0, 1),
    ):
        assert torch.equal(found, ops.rotary_pos_embedding(x, sin, cos, *more))


def test_a_cache_rotates_the_first_coordinates():
    x, angle = torch.randn(5, 2, 3, 8), torch.rand(7, 1, 2) * 6
    cache = torch.stack((angle.cos(), angle.sin()), -1)
    y = rotary.apply_rotary_pos_emb(x.to("hpu"), cache.to("hpu")).cpu()
    pairs = torch.view_as_complex(x[..., :4].double().unflatten(-1, (2, 2)).contiguous())
    turn = torch.polar(torch.ones(()).double(), angle[:5].double())[:, :, None]
    close(y[..., :4], torch.view_as_real(pairs * turn).flatten(-2))
    assert torch.equal(y[..., 4:], x[..., 4:])
    assert torch.equal(rotary.RotaryPosEmbeddingHelperV3.apply(x.to("hpu"), cache.to("hpu")).cpu(), y)


def test_a_cache_whose_batch_comes_first():
    x, angle = torch.randn(1, 3, 5, 8), torch.rand(1, 7, 2) * 6  # [batch, heads, length, dimension]
    cache = torch.stack((angle.cos(), angle.sin()), -1)
    y = rotary.RotaryPosEmbeddingHelperV3.apply(x.to("hpu"), cache.to("hpu")).cpu()
    moved = x.permute(2, 0, 1, 3).to("hpu")
    other = rotary.RotaryPosEmbeddingHelperV3.apply(moved, cache.transpose(0, 1).to("hpu")).cpu()
    assert torch.equal(y, other.permute(1, 2, 0, 3))


def test_bad_input():
    x, cos, _, _ = inputs()
    with pytest.raises(RuntimeError, match=r"rope_cache is .*; expected .2 or more, batch or 1, n, 2."):
        rotary.apply_rotary_pos_emb(x, cos)
