"""The operators of torch.nn.SyncBatchNorm on devices: PyTorch has these operators for CUDA only.

Statistics are per channel (dimension 1), in float32 for smaller floats. Source: the operators' schemas, and
torch/nn/modules/_functions.py, which says what each of them is for.
"""

import functools

import torch
from torch import Tensor


@functools.cache
def install() -> torch.library.Library:
    """Register the operators."""
    library = torch.library.Library("aten", "IMPL")
    for kernel in (
        batch_norm_stats,
        batch_norm_gather_stats_with_counts,
        batch_norm_elemt,
        batch_norm_backward_reduce,
        batch_norm_backward_elemt,
    ):
        library.impl(kernel.__name__, kernel, "HPU")
    return library


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _others(x: Tensor) -> list[int]:
    return [0, *range(2, x.dim())]


def _channels(values: Tensor, x: Tensor) -> Tensor:
    return values.view(1, -1, *([1] * (x.dim() - 2)))


def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and inverse standard deviation of each channel."""
    variance, mean = torch.var_mean(_wide(input), _others(input), correction=0)
    return mean, (variance + eps).rsqrt()


def batch_norm_gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Those of all processes together, from each one's (rows) and its number of elements; updates what is running."""
    weights = counts.to(mean.dtype).unsqueeze(1)
    total = weights.sum()
    common = (mean * weights).sum(0) / total
    squares = (invstd.reciprocal().square() - eps + (mean - common).square()) * weights
    variance = squares.sum(0) / total
    if running_mean is not None:
        running_mean.lerp_(common.to(running_mean.dtype), momentum)
    if running_var is not None:
        unbiased = variance * (total / (total - 1))
        running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    return common, (variance + eps).rsqrt()


def batch_norm_elemt(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """The normalised input."""
    out = (_wide(input) - _channels(mean, input)) * _channels(invstd, input)
    if weight is not None:
        out = out * _channels(_wide(weight), input)
    if bias is not None:
        out = out + _channels(_wide(bias), input)
    return out.to(input.dtype)


def batch_norm_backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums of this process over each channel: of the gradient, of it times the centred input; gradients of both."""
    grad = _wide(grad_out)
    others = _others(input)
    sum_dy = grad.sum(others)
    sum_dy_xmu = (grad * (_wide(input) - _channels(mean, input))).sum(others)
    dtype = weight.dtype if weight is not None else input.dtype
    return sum_dy, sum_dy_xmu, (sum_dy_xmu * invstd).to(dtype), sum_dy.to(dtype)


def batch_norm_backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """The input's gradient, from the sums over all processes."""
    total = count.sum().to(mean.dtype)
    centred = _wide(input) - _channels(mean, input)
    factor = _channels(invstd.square() * sum_dy_xmu / total, input)
    grad = (_wide(grad_out) - _channels(sum_dy / total, input) - centred * factor) * _channels(invstd, input)
    if weight is not None:
        grad = grad * _channels(_wide(weight), input)
    return grad.to(input.dtype)
