"""PyTorch's Adam and AdamW that end a step of the graph after their own."""

from collections.abc import Callable
from typing import Any

import torch

from openhpu.device import steps


class _Marking(torch.optim.Optimizer):
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """PyTorch's, and the end of the graph."""
        loss = super().step(closure)
        steps._mark_step_if_lazy()
        return loss


class Adam(_Marking, torch.optim.Adam):
    """torch.optim.Adam; in lazy mode its step is followed by mark_step."""


class AdamW(_Marking, torch.optim.AdamW):
    """torch.optim.AdamW; in lazy mode its step is followed by mark_step."""
