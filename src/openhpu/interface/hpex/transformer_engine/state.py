"""Whether fp8 is on, by which recipe, and the scales of a module's tensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from openhpu import settings
from openhpu.interface.gaudi_ops.fp8 import absolute_maximum, largest
from openhpu.interface.hpex.transformer_engine.scaling import DelayedScaling


class FP8GlobalStateManager:
    """The settings of the innermost fp8_autocast of the process."""

    _stack: list[tuple[bool, bool, DelayedScaling, Any]] = []  # noqa: RUF012  # of the process, as the class
    _default = DelayedScaling()

    @classmethod
    def is_fp8_enabled(cls) -> bool:
        """Whether modules compute in fp8."""
        return bool(cls._stack) and cls._stack[-1][0]

    @classmethod
    def is_fp8_calibration(cls) -> bool:
        """Whether modules only record the largest values of their tensors."""
        return bool(cls._stack) and cls._stack[-1][1]

    @classmethod
    def get_fp8_recipe(cls) -> DelayedScaling:
        """The recipe in force, or the default one."""
        return cls._stack[-1][2] if cls._stack else cls._default

    @classmethod
    def get_fp8_group(cls) -> Any:
        """The process group over which maxima are reduced."""
        return cls._stack[-1][3] if cls._stack else None


@contextmanager
def fp8_autocast(
    enabled: bool = True,
    calibrating: bool = False,
    fp8_recipe: DelayedScaling | None = None,
    fp8_group: Any = None,
    force_measurement: bool | None = None,
) -> Iterator[None]:
    """Modules of this package compute in fp8 inside. `calibrating`: they record maxima, also where they don't.

    Raises RuntimeError where the chosen generation has no fp8.
    """
    available, why = is_fp8_available()
    if enabled and not available:
        raise RuntimeError(f"fp8_autocast: {why}")
    recipe = fp8_recipe or FP8GlobalStateManager._default
    FP8GlobalStateManager._stack.append((enabled, calibrating, recipe, fp8_group))
    try:
        yield
    finally:
        FP8GlobalStateManager._stack.pop()


def is_fp8_available() -> tuple[bool, str]:
    """Whether the chosen generation has fp8, and why not."""
    if settings.get("OPENHPU_GENERATION") == "gaudi":
        return False, "fp8 needs Gaudi 2 or 3, and OPENHPU_GENERATION is gaudi"
    return True, ""


@contextmanager
def activation_checkpointing() -> Iterator[None]:
    """Around a checkpointed part, forward and recomputation. A recomputation records no maxima, inside or outside."""
    yield


class TensorScale(torch.nn.Module):
    """Scale and history of one tensor of a module; saved with it."""

    scale: Tensor
    history: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("history", torch.zeros(1))
        self._steps = 0

    def next(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """The scale for this step's `x`, from the steps before; `x` is recorded. All on the device, without a wait."""
        recipe = FP8GlobalStateManager.get_fp8_recipe()
        with torch.no_grad():
            if self.history.shape[0] != recipe.amax_history_len or self.history.device != x.device:
                history = torch.zeros(recipe.amax_history_len, device=x.device)
                kept = min(len(history), self.history.shape[0])
                history[:kept] = self.history[:kept]
                self.history, self.scale = history, self.scale.to(x.device)
            if self._steps % recipe.interval == 0:
                amax = self.history.amax() if recipe.amax_compute_algo == "max" else self.history[0]
                found = largest(dtype) / amax / 2.0**recipe.margin
                self.scale = torch.where((amax > 0) & torch.isfinite(found), found, self.scale)
            # The largest absolute value becomes the first in the history.
            amax = absolute_maximum(x.detach())
            group = FP8GlobalStateManager.get_fp8_group()
            if recipe.reduce_amax and group is not None:
                torch.distributed.all_reduce(amax, op=torch.distributed.ReduceOp.MAX, group=group)
            self.history = torch.cat((amax.reshape(1), self.history[:-1]))
            self._steps += 1
        return self.scale


def is_recomputing() -> bool:
    """Whether this is a forward inside of a backward: a checkpoint's recomputation."""
    return torch._C._current_graph_task_id() != -1  # type: ignore[attr-defined,no-any-return]
