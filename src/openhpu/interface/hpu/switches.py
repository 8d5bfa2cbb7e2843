"""Switches of the compilation of graphs. Those without a body are accepted and change nothing here."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from openhpu import settings
from openhpu.compiler.program import sections
from openhpu.interface.names import deprecated

__all__ = [
    "disable_const_section_serialization",
    "disable_dynamic_shape",
    "disable_inference_mode",
    "disable_matmul3d_2d_reshape",
    "disable_optim_output_sif",
    "disable_quantization",
    "enable_const_section_serialization",
    "enable_dynamic_shape",
    "enable_inference_mode",
    "enable_matmul3d_2d_reshape",
    "enable_optim_output_sif",
    "enable_quantization",
    "enable_recompute_sdp",
    "get_dynamic_shape_status",
    "getDeterministic",
    "recompute_sdp_enabled",
    "sdp_kernel",
    "setDeterministic",
]

_recompute_sdp = False


def enable_dynamic_shape() -> None:
    """Let graphs be compiled for ranges of shapes, as PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES=1 does."""
    settings.override("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", True)


def disable_dynamic_shape() -> None:
    """Undo `enable_dynamic_shape`."""
    settings.override("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", False)


def get_dynamic_shape_status() -> bool:
    """Whether graphs are to be compiled for ranges of shapes."""
    return bool(settings.get("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES"))


def enable_inference_mode() -> None:
    """Let graphs be compiled for inference."""
    settings.override("PT_HPU_INFERENCE_MODE", True)


def disable_inference_mode() -> None:
    """Undo `enable_inference_mode`."""
    settings.override("PT_HPU_INFERENCE_MODE", False)


def enable_optim_output_sif() -> None:
    """Let output shapes of dynamic graphs be worked out early."""


def disable_optim_output_sif() -> None:
    """Undo `enable_optim_output_sif`."""


def enable_quantization() -> None:
    """Let graphs be quantized."""


def disable_quantization() -> None:
    """Undo `enable_quantization`."""


def enable_matmul3d_2d_reshape() -> None:
    """Let graphs fold the batch of a 3-D by 2-D matrix product into its rows."""


def disable_matmul3d_2d_reshape() -> None:
    """Undo `enable_matmul3d_2d_reshape`."""


def enable_recompute_sdp(enabled: bool) -> None:
    """Whether fused attention recomputes its forward pass in the backward pass by default."""
    global _recompute_sdp
    _recompute_sdp = bool(enabled)


def recompute_sdp_enabled() -> bool:
    """The value that `enable_recompute_sdp` set."""
    return _recompute_sdp


@contextmanager
def sdp_kernel(enable_recompute: bool = True) -> Iterator[None]:
    """`enable_recompute_sdp(enable_recompute)` for the length of a with block."""
    before = recompute_sdp_enabled()
    enable_recompute_sdp(enable_recompute)
    try:
        yield
    finally:
        enable_recompute_sdp(before)


def enable_const_section_serialization(path: str, clear_path: bool = False, use_compression: bool = False) -> None:
    """Keep the constants of graphs that are compiled from now on in the folder `path`, which is made.

    Each content is one file, named by its digest, which recipes of one model share; with `use_compression` by zlib.
    `clear_path` deletes earlier ones. Recipes hold their constants themselves, too, in memory and in the cache on disk
    (PT_HPU_RECIPE_CACHE_CONFIG). Raises OSError for a path that cannot be a folder.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    if clear_path:
        for file in folder.iterdir():
            if file.is_file() and file.suffix == sections.SUFFIX:
                file.unlink()
    sections.keep_in(folder, use_compression)


def disable_const_section_serialization() -> None:
    """Undo `enable_const_section_serialization`; the folder stays."""
    sections.keep_in(None)


@deprecated("hpu.setDeterministic", "torch.use_deterministic_algorithms")
def setDeterministic(enabled: bool) -> None:
    torch.use_deterministic_algorithms(bool(enabled))


@deprecated("hpu.getDeterministic", "torch.are_deterministic_algorithms_enabled")
def getDeterministic() -> bool:
    return torch.are_deterministic_algorithms_enabled()
