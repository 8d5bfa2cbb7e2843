"""Scaled dot product attention: which kernel it takes. Its numbers are compared by the conformance suite."""

import torch
from torch.nn.functional import scaled_dot_product_attention as attention

from .support import agree
from .test_trace import Trace


def test_grouped_queries():
    q, k, v = torch.randn(2, 4, 10, 8), *torch.randn(2, 2, 2, 10, 8)
    agree(lambda q, k, v: attention(q, k, v, enable_gqa=True), q, k, v, exact=False)


def test_the_flash_kernel_is_chosen():
    q, k, v = torch.randn(3, 2, 4, 10, 8, device="hpu")
    with Trace() as trace:
        attention(q, k, v, is_causal=True)
    assert [name for name, _ in trace.calls] == ["aten._scaled_dot_product_flash_attention_for_cpu.default"]
