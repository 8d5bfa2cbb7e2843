"""`import habana_frameworks.torch.core as htcore`."""

from habana_frameworks.torch.core import quantization as quantization, step_closure as step_closure
from openhpu.device.mode import is_lazy as is_lazy
from openhpu.device.steps import (
    add_step_closure as add_step_closure,
    iter_mark_step as iter_mark_step,
    mark_step as mark_step,
)
from openhpu.interface import hpu as hpu
from openhpu.interface.inference import (
    hpu_inference_initialize as hpu_inference_initialize,
    hpu_inference_set_env as hpu_inference_set_env,
    hpu_initialize as hpu_initialize,
    hpu_reset_env as hpu_reset_env,
    hpu_set_env as hpu_set_env,
    hpu_set_inference_env as hpu_set_inference_env,
    hpu_teardown_inference_env as hpu_teardown_inference_env,
)
