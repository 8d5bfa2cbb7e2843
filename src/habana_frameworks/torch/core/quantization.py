"""Inference mode and constant parameters, under the names by which Lightning and Neural Compressor reach them."""

from openhpu.interface.inference import (  # noqa: F401
    check_params_as_const as _check_params_as_const,
    hpu_inference_initialize as hpu_inference_initialize,
    hpu_inference_set_env as hpu_inference_set_env,
    hpu_initialize as hpu_initialize,
    hpu_reset_env as hpu_reset_env,
    hpu_set_env as hpu_set_env,
    hpu_set_inference_env as hpu_set_inference_env,
    hpu_teardown_inference_env as hpu_teardown_inference_env,
    mark_params_as_const as _mark_params_as_const,
    marked_const_count as _get_marked_const_count,
)
