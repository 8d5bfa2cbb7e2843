"""`import habana_frameworks.torch.core as htcore`."""

from habana_frameworks.torch.core import quantization, step_closure
from openhpu import hpu as hpu
from openhpu.inference import (
    hpu_inference_initialize,
    hpu_inference_set_env,
    hpu_initialize,
    hpu_reset_env,
    hpu_set_env,
    hpu_set_inference_env,
    hpu_teardown_inference_env,
)
from openhpu.mode import is_lazy
from openhpu.steps import add_step_closure, iter_mark_step, mark_step

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
