"""`import habana_frameworks.torch.core as htcore`."""

from habana_frameworks.torch.core import quantization, step_closure
from openhpu.device.mode import is_lazy
from openhpu.device.steps import add_step_closure, iter_mark_step, mark_step
from openhpu.interface import hpu as hpu
from openhpu.interface.inference import (
    hpu_inference_initialize,
    hpu_inference_set_env,
    hpu_initialize,
    hpu_reset_env,
    hpu_set_env,
    hpu_set_inference_env,
    hpu_teardown_inference_env,
)

__all__ = [
    "add_step_closure",
    "hpu",
    "hpu_inference_initialize",
    "hpu_inference_set_env",
    "hpu_initialize",
    "hpu_reset_env",
    "hpu_set_env",
    "hpu_set_inference_env",
    "hpu_teardown_inference_env",
    "is_lazy",
    "iter_mark_step",
    "mark_step",
    "quantization",
    "step_closure",
]
