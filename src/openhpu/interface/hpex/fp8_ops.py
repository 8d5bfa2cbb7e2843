"""Gaudi's operators of fp8 as functions, under the name Fp8Ops."""

from typing import Any

import torch

__all__ = ["cast_from_fp8", "cast_to_fp8_v2", "fp8_gemm_v2"]


def cast_to_fp8_v2(
    input: torch.Tensor,
    scale: Any = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
    dtype: torch.dtype | None = None,
    scale_shape: list[int] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """torch.ops.hpu.cast_to_fp8_v2: fp8(input * scale), and max |input|, empty unless `is_amax`.

    `dtype`: float8_e5m2 (the default) or float8_e4m3fn. Raises RuntimeError for others.
    """
    options = {"scale_shape": scale_shape} if scale_shape is not None else {}
    return torch.ops.hpu.cast_to_fp8_v2(  # type: ignore[no-any-return]
        input, scale, stochastic_rounding, is_amax, dtype, **options
    )


def cast_from_fp8(
    input: torch.Tensor, scale: Any, out_dtype: torch.dtype, scale_shape: list[int] | None = None
) -> torch.Tensor:
    """torch.ops.hpu.cast_from_fp8: an fp8 tensor times its scale, in `out_dtype`."""
    options = {"scale_shape": scale_shape} if scale_shape is not None else {}
    return torch.ops.hpu.cast_from_fp8(input, scale, out_dtype, **options)  # type: ignore[no-any-return]


def fp8_gemm_v2(*args: Any, **kwargs: Any) -> torch.Tensor:
    """torch.ops.hpu.fp8_gemm_v2: the product of two fp8 tensors with their scales, with its arguments."""
    return torch.ops.hpu.fp8_gemm_v2(*args, **kwargs)  # type: ignore[no-any-return]
