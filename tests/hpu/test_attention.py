"""Scaled dot product attention: which kernel it takes. Its numbers are compared by the conformance suite."""

import torch
from torch.nn.functional import scaled_dot_product_attention as attention

from .support import agree


def qkv(kv_heads=4):
    return [torch.randn(2, heads, 10, 8) for heads in (4, kv_heads, kv_heads)]


def test_grouped_queries():
    agree(lambda q, k, v: attention(q, k, v, enable_gqa=True), *qkv(2), exact=False)


def test_the_flash_kernel_is_chosen():
    from .test_trace import Trace

    q, k, v = (x.to("hpu") for x in qkv())
    with Trace() as trace:
        attention(q, k, v, is_causal=True)
    assert [name for name, _ in trace.calls] == ["aten._scaled_dot_product_flash_attention_for_cpu.default"]
