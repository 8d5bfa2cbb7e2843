"""hpex.kernels.FusedSDPA and its relatives, against the formula in float64."""

import pytest
import torch

from openhpu.interface.hpex import attention
from openhpu.interface.hpex.attention import FusedSDPA
from tests.hpu.support import causal, close, exact_attention, to_hpu


def inputs(*shape, key_heads=None):
    kv = (shape[0], key_heads or shape[1], *shape[2:])
    return torch.randn(shape), torch.randn(kv), torch.randn(kv)


def formula(q, k, v, seen=None, sinks=None, scale=None):
    return exact_attention(q, k, v, scale or q.shape[-1] ** -0.5, seen=seen, sinks=sinks)[0]


@pytest.mark.parametrize("key_heads", [4, 2])
def test_all_positional_arguments(counted, key_heads):
    q, k, v = inputs(2, 4, 5, 8, key_heads=key_heads)
    arguments = (None, 0.0, True, 0.4, "fast", True, None, "left", False, False, None, None)
    with counted(ops_fallback=0) as difference:
        out = FusedSDPA.apply(*to_hpu((q, k, v)), *arguments)
        torch.hpu.synchronize()
    assert difference["ops_issued"] + difference["ops_waited"] <= 2  # one operator, and its rehearsal
    close(out, formula(q, k, v, causal(5), scale=0.4))
    close(attention.ModuleFusedSDPA()(*to_hpu((q, k, v))), formula(q, k, v))
    close(FusedSDPA.apply(*to_hpu((q, k, v)), None, 0.0, None), formula(q, k, v))
    close(attention.PySDPA(*to_hpu((q, k, v)), is_causal=True, scale=0.4), out.cpu().double())


def test_it_trains_as_pytorchs_operator():
    given = inputs(1, 2, 5, 8)
    grads = []
    for attend in (
        lambda q, k, v: FusedSDPA.apply(q, k, v, None, 0.0, True),
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    ):
        leaves = [t.to("hpu").requires_grad_() for t in given]
        attend(*leaves).square().sum().backward()
        grads.append([t.grad for t in leaves])
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_lengths(side):
    q, k, v = inputs(2, 2, 5, 8)
    lengths, columns = torch.tensor([3, 5]), torch.arange(5)
    valid = columns < lengths[:, None] if side == "right" else columns >= 5 - lengths[:, None]
    seen = valid[:, None, None] & causal(5)
    out = FusedSDPA.apply(*to_hpu((q, k, v)), None, 0.0, True, None, "fast", None, lengths.to("hpu"), side)
    assert out.isfinite().all()
    rows = seen.any(-1)[:, 0]  # of which a query sees something
    close(out.transpose(1, 2)[rows.to("hpu")], formula(q, k, v, seen).transpose(1, 2)[rows])


@pytest.mark.parametrize("window", [(2, 0), (1, 1), (-1, 1)])
@pytest.mark.parametrize("with_sinks", [False, True])
def test_windows_and_sinks(window, with_sinks):
    q, k, v = inputs(2, 4, 6, 8, key_heads=2)
    sinks = torch.randn(4) if with_sinks else None
    distance = torch.arange(6) - torch.arange(6)[:, None]
    seen = distance <= window[1]
    if window[0] >= 0:
        seen &= distance >= -window[0]
    more = (None, None, "left", False, False, window, None if sinks is None else sinks.to("hpu"))
    close(FusedSDPA.apply(*to_hpu((q, k, v)), None, 0.0, False, None, "None", *more), formula(q, k, v, seen, sinks))


def test_five_dimensions():
    q, k, v = inputs(2, 4, 5, 8, key_heads=2)
    assert attention.is_gqa(q, k)
    assert not attention.is_gqa(q, q)
    mask = torch.rand(2, 1, 5, 5) > 0.3
    mask[..., 0] = True
    *grouped, wide = attention.gqa_input_reshape_fwd(*to_hpu((q, k, v)), mask.to("hpu"))
    close(attention.gqa_output_reshape(FusedSDPA.apply(*grouped, wide)), formula(q, k, v, mask))


@pytest.mark.filterwarnings(
    "ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning", "ignore:.torch.jit.*deprecated:FutureWarning"
)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"is_causal": True},
        {"scale": 0.5},
        {"softmax_mode": "fast"},
        {"window_size": (1, 0)},
        {"is_causal": True, "valid_sequence_lengths": [5, 3]},
        {"return_attn_probs": True},
    ],
    ids=lambda more: ", ".join(more) or "defaults",
)
@pytest.mark.parametrize("key_heads", [4, 2])
def test_it_can_be_traced(key_heads, more):
    """torch.jit.trace hands out sizes as tensors."""
    q, k, v = to_hpu(inputs(2, 4, 5, 8, key_heads=key_heads))
    more = {
        name: torch.tensor(value, device="hpu") if name.startswith("valid") else value for name, value in more.items()
    }

    def attend(q, k, v):
        return FusedSDPA.apply(q, k, v, **more)

    traced = torch.jit.trace(attend, (q + 1, k, v), check_trace=False)
    torch.testing.assert_close(traced(q, k, v), attend(q, k, v))


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_the_mask_of_dropout_and_the_probabilities_are_returned(p):
    q, k, v = inputs(2, 4, 5, 8)
    given = to_hpu((q, k, v))
    options = {"return_dropout_mask": True, "return_attn_probs": True}
    out, keep, probabilities = FusedSDPA.apply(*given, None, p, True, 0.4, **options)
    expected, exact, _ = exact_attention(q, k, v, 0.4, seen=causal(5), keep=keep.cpu() / (1 - p))
    close([out, probabilities], [expected, exact])
    assert keep.dtype is torch.bool
    assert keep.all() == (p == 0.0)
    again, only = FusedSDPA.apply(*given, None, 0.0, True, 0.4, return_dropout_mask=True)
    assert only.all()
    close(again, formula(q, k, v, causal(5), scale=0.4))


def test_the_script_chooses_pytorchs_backend():
    given = to_hpu(inputs(2, 4, 5, 8))
    expected = torch.nn.functional.scaled_dot_product_attention(*given)
    backend = torch.nn.attention.SDPBackend
    for chosen in (backend.MATH, [backend.FLASH_ATTENTION, backend.MATH]):
        with torch.nn.attention.sdpa_kernel(chosen):
            torch.testing.assert_close(torch.nn.functional.scaled_dot_product_attention(*given), expected)
