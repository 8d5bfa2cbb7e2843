"""Inference mode: what Gaudi scripts call around a model that is only evaluated."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar, overload

import torch

from openhpu import hpu

Model = TypeVar("Model", bound=torch.nn.Module)


@overload
def hpu_set_inference_env(model: None = None) -> None: ...
@overload
def hpu_set_inference_env(model: Model) -> Model | torch.nn.Module: ...
def hpu_set_inference_env(model: torch.nn.Module | None = None) -> torch.nn.Module | None:
    """Turn inference mode on. With `model`, an evaluating model on the CPU, return it with its batch norms folded
    into the convolutions before them; a model that torch.fx cannot trace comes back as it is, with a warning."""
    hpu.enable_inference_mode()
    hpu.enable_matmul3d_2d_reshape()
    return None if model is None else _fold(model)


def hpu_inference_initialize(
    model: torch.nn.Module | None = None,
    mark_only_scales_as_const: bool = False,
    optimizer: Any = None,
    args: Any = None,
) -> None:
    """Turn inference mode on, after `model.to("hpu")`. Parameters become constants of compiled graphs only, so that
    there is nothing to mark where operators run eagerly."""
    hpu.enable_inference_mode()


def hpu_teardown_inference_env() -> None:
    """Turn inference mode off."""
    hpu.disable_inference_mode()
    hpu.disable_matmul3d_2d_reshape()


def hpu_inference_set_env(model: Any = None) -> Any:
    """The same as `hpu_set_inference_env`."""
    return hpu_set_inference_env(model)


def hpu_set_env(model: Any = None) -> Any:
    """Deprecated: use `hpu_set_inference_env`."""
    _warn("hpu_set_env", "hpu_set_inference_env")
    return hpu_set_inference_env(model)


def hpu_initialize(
    model: torch.nn.Module | None = None,
    mark_only_scales_as_const: bool = False,
    optimizer: Any = None,
    args: Any = None,
) -> None:
    """Deprecated: use `hpu_inference_initialize`."""
    _warn("hpu_initialize", "hpu_inference_initialize")
    hpu_inference_initialize(model, mark_only_scales_as_const, optimizer, args)


def hpu_reset_env() -> None:
    """Deprecated: use `hpu_teardown_inference_env`."""
    _warn("hpu_reset_env", "hpu_teardown_inference_env")
    hpu_teardown_inference_env()


def _warn(old: str, new: str) -> None:
    warnings.warn(f"htcore.{old} is deprecated; use htcore.{new}", FutureWarning, stacklevel=3)


def _fold(model: torch.nn.Module) -> torch.nn.Module:
    if model.training:
        raise RuntimeError("batch norms can be folded into an evaluating model only: call model.eval() first")
    if not any(isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in model.modules()):
        return model
    from torch.fx.experimental.optimization import fuse

    try:
        return fuse(model)
    except Exception as error:
        warnings.warn(
            f"batch norms are not folded, torch.fx cannot trace the model: {error}", UserWarning, stacklevel=3
        )
        return model
