"""Fused attention: `FusedSDPA` is PyTorch's scaled_dot_product_attention, with Gaudi's arguments."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from openhpu.interface.gaudi_ops.attention import SOFTMAX_MODES, Attention, Window, attend, check_arguments, visible
from openhpu.interface.gaudi_ops.errors import check
from openhpu.interface.gaudi_ops.registry import AUTOCAST
from openhpu.interface.hpu.switches import recompute_sdp_enabled
from openhpu.observe import differences

__all__ = [
    "FusedSDPA",
    "ModuleFusedSDPA",
    "PySDPA",
    "PySDPAHinted",
    "gqa_input_reshape_fwd",
    "gqa_output_reshape",
    "is_gqa",
]


class FusedSDPA:
    """Attention as one operator. Called as `FusedSDPA.apply(...)`."""

    @staticmethod
    def apply(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool | None = False,
        scale: float | None = None,
        softmax_mode: str = "None",
        recompute_mode: bool | None = None,
        valid_sequence_lengths: Tensor | None = None,
        padding_side: str = "left",
        return_dropout_mask: bool = False,
        return_attn_probs: bool = False,
        window_size: Window | None = None,
        sinks: Tensor | None = None,
    ) -> Any:
        """softmax(query @ key^T * scale + mask) @ value.

        query: [batch, heads, Sq, D]; key: [batch, heads or a divisor, Sk, D]; value: [batch, heads, Sk, E]; attn_mask:
        bool (True: seen) or added, broadcasting to [batch, heads, Sq, Sk]; scale: 1 / sqrt(D) if None.
        `softmax_mode` ("None", "fast", "fp32") and `recompute_mode` change no number here: PyTorch's kernel never keeps
        the probabilities. valid_sequence_lengths: [batch], of inference with is_causal alone; keys beyond them, at the
        padding side, are not seen. window_size: keys seen to the left and right of a query, -1: all. sinks: a score for
        each head in the sum of the softmax. `return_dropout_mask`, `return_attn_probs`: more results, in this order.
        Raises RuntimeError for arguments that do not fit. Source: torch.nn.functional.scaled_dot_product_attention.
        """
        is_causal = bool(is_causal)  # programs hand on None
        mode = _softmax_mode(softmax_mode)
        grouped = query.dim() >= 3 and bool(query.shape[-3] != key.shape[-3])  # torch.jit.trace has sizes as tensors
        if mode == "fast" and not is_causal and _is_recomputed_in_training(recompute_mode, query, key, value):
            differences.note("fast-attention")
        alone = query.dim() == 4 and sinks is None and not (return_attn_probs or return_dropout_mask)
        if alone and valid_sequence_lengths is None and window_size is None:
            check(mode in SOFTMAX_MODES, "FusedSDPA", "softmax_mode", mode, f"one of {', '.join(SOFTMAX_MODES)}")
            return scaled_dot_product_attention(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=grouped
            )
        call = Attention(
            operator="FusedSDPA",
            q=query,
            k=key,
            v=value,
            p=dropout_p,
            scale=scale,
            softmax_mode=mode,
            sinks=sinks,
            attention_mask=attn_mask,
            is_causal=is_causal,
            valid_seq_len=valid_sequence_lengths,
            seq_padding_type=padding_side,
            window=_window(window_size),
        )
        check_arguments(call)
        if valid_sequence_lengths is not None:
            fits, expected = is_causal and attn_mask is None, "None, unless is_causal is True and attn_mask is None"
            check(fits, "FusedSDPA", "valid_sequence_lengths", valid_sequence_lengths, expected)
        if alone:
            mask = _whole_mask(call)
            return scaled_dot_product_attention(query, key, value, mask, dropout_p, scale=scale, enable_gqa=grouped)
        return _results(call, return_dropout_mask, return_attn_probs)


def _results(call: Attention, dropout_mask: bool, probabilities: bool) -> Any:
    """What the call of attention makes, with more results if they are wanted."""
    q, k, v = lowered(call.q, call.k, call.v)
    with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
        found = attend(call._replace(q=q, k=k, v=v))
    more = []
    if dropout_mask:
        more.append(torch.ones_like(found.exact, dtype=torch.bool) if found.keep is None else found.keep)
    if probabilities:
        more.append(found.exact.to(q.dtype))
    out = found.out.to(q.dtype)
    return (out, *more) if more else out


def _is_recomputed_in_training(recompute: bool | None, *tensors: Tensor) -> bool:
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        return False
    return recompute_sdp_enabled() if recompute is None else recompute


def lowered(*tensors: Any) -> Any:
    """The tensors in autocast's dtype where autocast is on; None stays None."""
    if not torch.is_autocast_enabled("hpu"):
        return tensors
    return tuple(tensor if tensor is None else tensor.to(torch.get_autocast_dtype("hpu")) for tensor in tensors)


def _softmax_mode(mode: str | bool) -> str:
    if isinstance(mode, str):
        return str(mode)
    return "fast" if mode else "None"


def _window(window: Any) -> Window | None:
    if window is None:
        return None
    left, right = (window, 0) if isinstance(window, int) else window
    return None if left < 0 and right < 0 else (left, right)


def _whole_mask(call: Attention) -> Tensor | None:
    """The mask that says everything; a row that sees nothing sees all: it is padding, and must not become NaN."""
    seen, mask = visible(call), call.attention_mask
    if seen is None:
        return mask
    if mask is None:
        return seen | ~seen.any(-1, keepdim=True)
    return seen & mask if mask.dtype is torch.bool else mask.masked_fill(~seen, float("-inf"))


class ModuleFusedSDPA(torch.nn.Module):
    """`FusedSDPA` as a module, so that tools that look for modules find it."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """`FusedSDPA.apply` with these arguments."""
        return FusedSDPA.apply(*args, **kwargs)


def PySDPA(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention written as products and a softmax, in the dtypes of its operands."""
    call = Attention(
        operator="PySDPA",
        q=query,
        k=key,
        v=value,
        p=dropout_p,
        scale=scale,
        softmax_mode="None",
        attention_mask=attn_mask,
        is_causal=is_causal,
    )
    return attend(call).out.to(query.dtype)


def PySDPAHinted(*args: Any, **kwargs: Any) -> Tensor:
    """`PySDPA`. Gaudi's hints concern the schedule of its graph compiler, and change no number."""
    return PySDPA(*args, **kwargs)


def is_gqa(query: Tensor, key: Tensor) -> bool:
    """Whether several heads of the query share one of the key."""
    return query.dim() == 4 and query.shape[1] != key.shape[1]


def gqa_input_reshape_fwd(
    query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Heads as [groups, heads of a group]: five dimensions, over which operators broadcast.

    query: [batch, heads, S, D] becomes [batch, key's heads, heads / key's heads, S, D]; key and value get a dimension
    of 1, and so does a mask of four dimensions.
    """
    fits, expected = query.shape[1] % key.shape[1] == 0, f"a number of heads that divides query's {query.shape[1]}"
    check(fits, "gqa_input_reshape_fwd", "key", key, expected)
    grouped = query.reshape(query.shape[0], key.shape[1], -1, *query.shape[2:])
    if attention_mask is not None and attention_mask.dim() == 4:
        attention_mask = attention_mask.unsqueeze(1)
    return grouped, key.unsqueeze(2), value.unsqueeze(2), attention_mask


def gqa_output_reshape(output: Tensor) -> Tensor:
    """The result of five dimensions with its heads in one again."""
    return output.flatten(1, 2)
