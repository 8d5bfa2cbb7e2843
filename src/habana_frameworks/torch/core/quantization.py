"""Inference mode, under the name by which Lightning reaches it."""

from openhpu.inference import (
    hpu_inference_initialize,
    hpu_inference_set_env,
    hpu_initialize,
    hpu_reset_env,
    hpu_set_env,
    hpu_set_inference_env,
    hpu_teardown_inference_env,
)

__all__ = [
    "hpu_inference_initialize",
    "hpu_inference_set_env",
    "hpu_initialize",
    "hpu_reset_env",
    "hpu_set_env",
    "hpu_set_inference_env",
    "hpu_teardown_inference_env",
]
