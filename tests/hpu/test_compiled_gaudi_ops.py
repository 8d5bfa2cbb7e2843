"""Gaudi's own operators in recipes: the same numbers as operator by operator, and nothing outside of the recipe."""

import torch

from openhpu.interface.hpex.attention import FusedSDPA
from openhpu.interface.hpex.normalization import FusedRMSNorm

from .support import to_cpu, to_hpu

ops = torch.ops.hpu


def layer(x, weight, gamma, cos, sin):
    """A transformer's parts: norm, fp8 product, rotary embedding, attention, experts."""
    y = FusedRMSNorm.apply(x, gamma, 1e-5)
    q8, amax = ops.cast_to_fp8_v2(y, 16.0, False, True, torch.float8_e4m3fn)
    w8, _ = ops.cast_to_fp8_v2(weight, 8.0, False, False, torch.float8_e4m3fn)
    y = ops.fp8_gemm_v2(q8, False, w8, True, None, torch.float32, 1 / 16, 1 / 8)
    heads = y.unflatten(-1, (4, 8)).transpose(1, 2)
    turned = ops.rotary_pos_embedding(heads, sin, cos, None, 0, 0)
    attended = FusedSDPA.apply(turned, turned, heads, None, 0.0, True).transpose(1, 2).flatten(2)
    routing = torch.arange(12, device=x.device).reshape(6, 2) % 2
    experts = [[weight, weight + 1.0]] * 3
    mixed = ops.mixture_of_experts(
        attended.flatten(0, 1), routing, torch.ones_like(routing, dtype=x.dtype), *experts, True, "silu", 0, 1
    )
    return mixed, amax


def inputs():
    angle = torch.rand(3, 8) * 6
    return to_hpu([torch.randn(2, 3, 32), torch.randn(32, 32) / 8, torch.rand(32), angle.cos(), angle.sin()])


def test_a_layer_of_gaudis_operators_is_one_recipe(counted):
    arguments = inputs()
    expected = to_cpu(layer(*arguments))  # shapes are new: operator by operator
    with counted(ops_fallback=0, ops_node_by_node=0, graphs_cut=0) as difference:
        results = layer(*arguments)
        torch.hpu.synchronize()
    assert difference["ops_in_recipes"] == difference["ops_recorded"] > 40
    torch.testing.assert_close(to_cpu(results), expected, rtol=1e-4, atol=1e-4)
