"""`import habana_frameworks.torch.core as htcore`."""

from habana_frameworks.torch.core import quantization as quantization, step_closure as step_closure
from habana_frameworks.torch.core.quantization import *  # noqa: F403  # inference mode, under both names
from openhpu.device.mode import is_lazy as is_lazy
from openhpu.device.steps import add_step_closure, iter_mark_step, mark_step  # noqa: F401
from openhpu.interface import hpu as hpu
