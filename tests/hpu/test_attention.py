"""Scaled dot product attention: PyTorch's CPU flash kernel, and the plain form where that one does not apply."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

from .support import agree


def qkv(heads=2, length=10, width=8, kv_heads=None, dtype=torch.float32):
    torch.manual_seed(0)
    shapes = [(2, n, length, width) for n in (heads, kv_heads or heads, kv_heads or heads)]
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def with_gradients(function):
    """Output of `function` and gradients of its sum."""

    def run(*arguments):
        out = function(*arguments)
        inputs = [x for x in arguments if x.requires_grad]
        return out.detach(), torch.autograd.grad(out.square().sum(), inputs)

    return run


CASES = {
    "plain": lambda q, k, v: attention(q, k, v),
    "causal": lambda q, k, v: attention(q, k, v, is_causal=True),
    "scale": lambda q, k, v: attention(q, k, v, scale=0.3),
    "float mask": lambda q, k, v: attention(q, k, v, attn_mask=torch.ones(10, 10, device=q.device).tril().log()),
    "bool mask": lambda q, k, v: attention(
        q, k, v, attn_mask=torch.ones(10, 10, dtype=torch.bool, device=q.device).tril()
    ),
    "transposed inputs": lambda q, k, v: attention(*(x.mT.contiguous().mT for x in (q, k, v))),
    "three dimensions": lambda q, k, v: attention(q[0], k[0], v[0]),
    "short queries": lambda q, k, v: attention(q[:, :, :3], k, v),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_forward_and_backward_are_those_of_the_cpu(name, dtype):
    agree(with_gradients(CASES[name]), *qkv(dtype=dtype), exact=False)


def test_grouped_queries():
    agree(with_gradients(lambda q, k, v: attention(q, k, v, enable_gqa=True)), *qkv(4, kv_heads=2), exact=False)


def test_the_flash_kernel_is_chosen():
    from .test_trace import Trace

    q, k, v = (x.detach().to("hpu") for x in qkv())
    with Trace() as trace:
        attention(q, k, v, is_causal=True)
    assert [name for name, _ in trace.calls] == ["aten._scaled_dot_product_flash_attention_for_cpu.default"]


def test_backends_can_be_chosen():
    q, k, v = (x.detach().to("hpu") for x in qkv())
    expected = attention(q, k, v)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        torch.testing.assert_close(attention(q, k, v), expected)
    with torch.hpu.sdp_kernel(enable_recompute=True):
        torch.testing.assert_close(attention(q, k, v), expected)


def test_multi_head_attention_and_the_transformer_layer():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    x = torch.randn(2, 5, 16)
    for mode in (layer.train(), layer.eval()):
        layer.cpu()
        expected = mode(x).detach()
        torch.testing.assert_close(mode.to("hpu")(x.to("hpu")).detach().cpu(), expected, rtol=1e-4, atol=1e-5)
        with torch.no_grad():  # the fast path in eval
            torch.testing.assert_close(mode(x.to("hpu")).cpu(), expected, rtol=1e-4, atol=1e-5)
