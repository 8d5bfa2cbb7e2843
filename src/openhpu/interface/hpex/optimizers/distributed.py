"""Optimizers for several ranks, in the form in which torch.distributed calls them: with a list of gradients."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from openhpu.interface.hpex.optimizers import adamw


class FusedAdamW(adamw.FusedAdamW):
    """`hpex.optimizers.FusedAdamW`, whose step also takes gradients, as functional optimizers of torch.distributed."""

    def step(self, gradients: Sequence[Tensor | None] | Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One step with `gradients`, one for each parameter (None: it is left alone), in place of the parameters' own.

        A function is called before the step, which then takes the parameters' gradients, as without an argument.
        Raises ValueError for another number of gradients. Source: torch.distributed.optim's functional optimizers.
        """
        if gradients is None or callable(gradients):
            return super().step(gradients)
        params = [param for group in self.param_groups for param in group["params"]]
        if len(gradients) != len(params):
            raise ValueError(
                f"FusedAdamW.step: {len(gradients)} gradients are given; expected {len(params)}, one for each parameter"
            )
        own = [param.grad for param in params]
        try:
            for param, grad in zip(params, gradients, strict=True):
                param.grad = grad
            return super().step()
        finally:
            for param, grad in zip(params, own, strict=True):
                param.grad = grad

    def step_param(self, param: Tensor, grad: Tensor | None) -> None:
        """One step of one parameter with `grad`, as DDP's hooks call it as soon as a gradient is there."""
        self.step([grad if other is param else None for group in self.param_groups for other in group["params"]])
