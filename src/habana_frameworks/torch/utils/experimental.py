"""`import habana_frameworks.torch.utils.experimental as htexp`."""

from enum import IntEnum

import torch

from openhpu import _C
from openhpu.interface import hpu as hpu
from openhpu.interface.dynamicity import const_shape_dataloader, data_dynamicity, detect_recompilation_auto_model

__all__ = ["const_shape_dataloader", "data_dynamicity", "detect_recompilation_auto_model", "hpu", "synDeviceType"]


class synDeviceType(IntEnum):
    """The generations of the device."""

    synDeviceGaudi = 1
    synDeviceGaudi2 = 4
    synDeviceGaudi3 = 5


def _get_device_type() -> synDeviceType:
    """The generation that this process follows (OPENHPU_GENERATION)."""
    return synDeviceType(hpu.get_device_properties().device_type)


def _is_fp16_supported() -> bool:
    """Whether that generation has float16."""
    return hpu.is_fp16_supported()


def _data_ptr(tensor: torch.Tensor) -> int:
    """The address of the tensor's first element in device memory."""
    if tensor.device.type != "hpu":
        raise RuntimeError(f"_data_ptr expects a tensor on hpu, but got one on {tensor.device}")
    return _C.data_ptr(tensor)


def _set_is_dynamic_quantization(enabled: bool) -> None:
    """Accepted and without effect: Gaudi's graph compiler is told whether scales of fp8 change from call to call.

    Here a scale may change at each call.
    """


def _set_scale_attributes(hw_aligned: bool, method: int) -> None:
    """Accepted and without effect: Gaudi's graph compiler is told how scales of fp8 were chosen.

    Neural Compressor then refuses methods with a scale for each channel while scales are inputs of a graph.
    """
