"""The operators of torch.nn.SyncBatchNorm on devices: PyTorch has these operators for CUDA only.

Statistics are per channel (dimension 1), in float32 for smaller floats. Source: the operators' schemas, and
torch/nn/modules/_functions.py, which says what each of them is for.
"""

import functools

import torch
from torch import Tensor

from openhpu.compiler.program.named import Arguments, by_name


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
        schema = getattr(torch.ops.aten, kernel.__name__).default._schema
        library.impl(kernel.__name__, by_name(schema.arguments, kernel), "HPU")
    return library


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _others(x: Tensor) -> list[int]:
    return [0, *range(2, x.dim())]


def _channels(values: Tensor, x: Tensor) -> Tensor:
    return values.view(1, -1, *([1] * (x.dim() - 2)))


def batch_norm_stats(a: Arguments) -> tuple[Tensor, Tensor]:
    """Mean and inverse standard deviation of each channel."""
    variance, mean = torch.var_mean(_wide(a.input), _others(a.input), correction=0)
    return mean, (variance + a.eps).rsqrt()


def batch_norm_gather_stats_with_counts(a: Arguments) -> tuple[Tensor, Tensor]:
    """Those of all processes together, from each one's (rows) and its number of elements; updates what is running."""
    weights = a.counts.to(a.mean.dtype).unsqueeze(1)
    total = weights.sum()
    mean = (a.mean * weights).sum(0) / total
    squares = (a.invstd.reciprocal().square() - a.eps + (a.mean - mean).square()) * weights
    variance = squares.sum(0) / total
    if a.running_mean is not None:
        a.running_mean.lerp_(mean.to(a.running_mean.dtype), a.momentum)
    if a.running_var is not None:
        unbiased = variance * (total / (total - 1))
        a.running_var.lerp_(unbiased.to(a.running_var.dtype), a.momentum)
    return mean, (variance + a.eps).rsqrt()


def batch_norm_elemt(a: Arguments) -> Tensor:
    """The normalised input."""
    out = (_wide(a.input) - _channels(a.mean, a.input)) * _channels(a.invstd, a.input)
    if a.weight is not None:
        out = out * _channels(_wide(a.weight), a.input)
    if a.bias is not None:
        out = out + _channels(_wide(a.bias), a.input)
    return out.to(a.input.dtype)


def batch_norm_backward_reduce(a: Arguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums of this process over each channel: of the gradient, of it times the centred input; gradients of both."""
    grad = _wide(a.grad_out)
    others = _others(a.input)
    sum_dy = grad.sum(others)
    sum_dy_xmu = (grad * (_wide(a.input) - _channels(a.mean, a.input))).sum(others)
    dtype = a.weight.dtype if a.weight is not None else a.input.dtype
    return sum_dy, sum_dy_xmu, (sum_dy_xmu * a.invstd).to(dtype), sum_dy.to(dtype)


def batch_norm_backward_elemt(a: Arguments) -> Tensor:
    """The input's gradient, from the sums over all processes."""
    total = a.count.sum().to(a.mean.dtype)
    centred = _wide(a.input) - _channels(a.mean, a.input)
    factor = _channels(a.invstd.square() * a.sum_dy_xmu / total, a.input)
    grad = (_wide(a.grad_out) - _channels(a.sum_dy / total, a.input) - centred * factor) * _channels(a.invstd, a.input)
    if a.weight is not None:
        grad = grad * _channels(_wide(a.weight), a.input)
    return grad.to(a.input.dtype)
