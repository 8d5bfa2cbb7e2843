"""Steps."""

from openhpu.device.steps import _mark_step_if_lazy as _mark_step_if_lazy, add_step_closure, iter_mark_step, mark_step

__all__ = ["add_step_closure", "iter_mark_step", "mark_step"]
