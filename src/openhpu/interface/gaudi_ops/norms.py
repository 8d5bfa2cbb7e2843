"""Root-mean-square and instance normalization, and the clipping of gradients by their norm."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import check


def rms_norm(data_in: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x^2) + epsilon) * gamma over the last dimension, in x's dtype, and the reciprocal root, in float32.

    data_in: [..., D]; gamma: [D]; the second result: [..., 1]. Raises RuntimeError for another gamma. Source:
    torch.nn.functional.rms_norm.
    """
    check(data_in.is_floating_point() and data_in.dim() > 0, "rms_norm", "data_in", data_in, "a floating-point tensor")
    size = data_in.shape[-1]
    check(gamma.numel() == size and gamma.shape[-1] == size, "rms_norm", "gamma", gamma, f"a tensor of shape [{size}]")
    x = data_in.float()
    reciprocal = torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)
    return (x * reciprocal * gamma).to(data_in.dtype), reciprocal


def rms_norm_backward(
    grad_in: Tensor, data_in: Tensor, gamma: Tensor, inverse_rms: Tensor, use_stages: bool, bwd_mode: int
) -> tuple[Tensor, Tensor]:
    """Gradients of data_in and gamma. `use_stages` and `bwd_mode` choose between ways to the same numbers."""
    check(grad_in.shape == data_in.shape, "rms_norm_backward", "grad_in", grad_in, f"shape {list(data_in.shape)}")
    x, grad = data_in.float(), grad_in.float()
    normalized = x * inverse_rms
    weighted = grad * gamma
    grad_x = inverse_rms * (weighted - normalized * (weighted * normalized).mean(-1, keepdim=True))
    grad_gamma = (grad * normalized).reshape(-1, x.shape[-1]).sum(0).reshape(gamma.shape)
    return grad_x.to(data_in.dtype), grad_gamma.to(gamma.dtype)


def clip_(grads: Sequence[Tensor], max_norm: Tensor | float, norm_type: float = 2.0) -> Tensor:
    """Scale the gradients in place so that their norm together is at most `max_norm`; the norm before that.

    Source: torch.nn.utils.clip_grad_norm_.
    """
    norms = torch._foreach_norm(list(grads), norm_type)
    total = torch.linalg.vector_norm(torch.stack([norm.float() for norm in norms]), norm_type)
    factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    torch._foreach_mul_(list(grads), factor)
    return total


def fused_clip_norm(grad: list[Tensor], max_norm: Tensor, norm_type: float) -> Tensor:
    """`clip_` on a list of gradients; max_norm: one number. Returns their norm before, a 0-dim float32 tensor."""
    check(len(grad) > 0, "fused_clip_norm", "grad", grad, "at least one tensor")
    check(max_norm.numel() == 1, "fused_clip_norm", "max_norm", max_norm, "one number")
    with torch.no_grad():
        return clip_(grad, max_norm.reshape(()), norm_type)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Each channel of each sample normalized over its positions; its mean and 1 / sqrt(variance + eps), [N, C].

    input: [N, C, ...]; weight, bias: [C]. Source: torch.nn.functional.instance_norm.
    """
    check(input.is_floating_point() and input.dim() >= 3, "instance_norm", "input", input, "[N, C, length, ...]")
    wide = [None if x is None else x.float() for x in (weight, bias)]
    out, mean, rstd = torch.native_group_norm(input.float().contiguous(), wide[0], wide[1], *_groups(input), eps)
    return out.to(input.dtype), mean, rstd


def _groups(input: Tensor) -> tuple[int, int, int, int]:
    """Samples, channels, positions, and groups: each channel is one."""
    n, channels = input.shape[:2]
    return n, channels, math.prod(input.shape[2:]), channels


def instance_norm_backward(
    input: Tensor, grad_in: Tensor, mean: Tensor, istd: Tensor, gamma: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `instance_norm`'s input, weight and bias."""
    scale = torch.ones_like(mean[0]) if gamma is None else gamma.float()
    wide = [x.float().contiguous() for x in (grad_in, input, mean, istd)]
    grad, *others = torch.ops.aten.native_group_norm_backward(*wide, scale, *_groups(input), [True] * 3)
    dtype = grad_in.dtype if gamma is None else gamma.dtype
    return grad.to(input.dtype), others[0].to(dtype), others[1].to(dtype)
