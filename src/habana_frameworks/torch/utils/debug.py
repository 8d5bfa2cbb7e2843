"""`import habana_frameworks.torch.utils.debug as htdebug`: what of Gaudi's debug helpers has a meaning here."""

import torch

from openhpu import _C, events

__all__ = ["get_tensor_info"]


def _get_fallback_op_count() -> dict[str, int]:
    """How often each operator fell back to the CPU."""
    return events.fallback_ops()


def get_tensor_info(tensor: torch.Tensor) -> tuple[int, int]:
    """The address of an hpu tensor's first element and the size of its elements in bytes."""
    if tensor.device.type != "hpu":
        raise RuntimeError(f"get_tensor_info expects a tensor on hpu, but got one on {tensor.device}")
    return _C.data_ptr(tensor), tensor.numel() * tensor.element_size()
