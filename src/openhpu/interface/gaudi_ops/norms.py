"""Root-mean-square and instance normalization, and the clipping of gradients by their norm."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import check, expect


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


def rms_norm_backward(a: operators.RmsNormBackward) -> tuple[Tensor, Tensor]:
    """Gradients of data_in and gamma. `use_stages` and `bwd_mode` choose between ways to the same numbers."""
    fits, expected = a.grad_in.shape == a.data_in.shape, f"shape {list(a.data_in.shape)}"
    check(fits, "rms_norm_backward", "grad_in", a.grad_in, expected)
    x, grad = a.data_in.float(), a.grad_in.float()
    normalized = x * a.inverse_rms
    weighted = grad * a.gamma
    grad_x = a.inverse_rms * (weighted - normalized * (weighted * normalized).mean(-1, keepdim=True))
    grad_gamma = (grad * normalized).reshape(-1, x.shape[-1]).sum(0).reshape(a.gamma.shape)
    return grad_x.to(a.data_in.dtype), grad_gamma.to(a.gamma.dtype)


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


def instance_norm(a: operators.InstanceNorm) -> tuple[Tensor, Tensor, Tensor]:
    """Each channel of each sample normalized over its positions; its mean and 1 / sqrt(variance + eps), [N, C].

    input: [N, C, ...]; weight, bias: [C]. Source: torch.nn.functional.instance_norm.
    """
    expect(a, "input", a.input.is_floating_point() and a.input.dim() >= 3, "[N, C, length, ...]")
    weight, bias = (None if x is None else x.float() for x in (a.weight, a.bias))
    out, mean, rstd = torch.native_group_norm(a.input.float().contiguous(), weight, bias, *_groups(a.input), a.eps)
    return out.to(a.input.dtype), mean, rstd


def _groups(input: Tensor) -> tuple[int, int, int, int]:
    """Samples, channels, positions, and groups: each channel is one."""
    n, channels = input.shape[:2]
    return n, channels, math.prod(input.shape[2:]), channels


def instance_norm_backward(a: operators.InstanceNormBackward) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `instance_norm`'s input, weight and bias."""
    scale = torch.ones_like(a.mean[0]) if a.gamma is None else a.gamma.float()
    wide = [x.float().contiguous() for x in (a.grad_in, a.input, a.mean, a.istd)]
    grad, *others = torch.ops.aten.native_group_norm_backward(*wide, scale, *_groups(a.input), [True] * 3)
    dtype = a.grad_in.dtype if a.gamma is None else a.gamma.dtype
    return grad.to(a.input.dtype), others[0].to(dtype), others[1].to(dtype)
