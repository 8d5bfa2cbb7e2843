"""Inference mode and constant parameters, under the names by which Lightning and Neural Compressor reach them."""

from openhpu.interface.inference import check_params_as_const as _check_params_as_const
from openhpu.interface.inference import (
    hpu_inference_initialize,
    hpu_inference_set_env,
    hpu_initialize,
    hpu_reset_env,
    hpu_set_env,
    hpu_set_inference_env,
    hpu_teardown_inference_env,
)
from openhpu.interface.inference import mark_params_as_const as _mark_params_as_const
from openhpu.interface.inference import marked_const_count as _get_marked_const_count

__all__ = [
    "_check_params_as_const",
    "_get_marked_const_count",
    "_mark_params_as_const",
    "hpu_inference_initialize",
    "hpu_inference_set_env",
    "hpu_initialize",
    "hpu_reset_env",
    "hpu_set_env",
    "hpu_set_inference_env",
    "hpu_teardown_inference_env",
]
