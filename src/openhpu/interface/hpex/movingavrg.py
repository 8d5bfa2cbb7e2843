"""Moving averages of a model's weights."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch


class FusedEMA:
    """Keeps `ema`, a copy of the model whose floating-point state is an exponential moving average.

    Its decay rises to `decay` as updates come: decay * (1 - exp(-updates / 2000)).
    """

    def __init__(self, model: torch.nn.Module, decay: float = 0.9999, updates: int = 0) -> None:
        self.ema = copy.deepcopy(model).eval()
        self.updates = updates
        self.decay = lambda count: decay * (1 - math.exp(-count / 2000))
        for parameter in self.ema.parameters():
            parameter.requires_grad_(False)

    def update(self, model: torch.nn.Module) -> None:
        """ema = decay * ema + (1 - decay) * model, for each floating-point tensor; others are copied."""
        self.updates += 1
        current = model.state_dict()
        averages, values = [], []
        with torch.no_grad():
            for name, average in self.ema.state_dict().items():
                if average.is_floating_point():
                    averages.append(average)
                    values.append(current[name].detach())
                else:
                    average.copy_(current[name])
            if averages:
                decay = torch.full((1,), self.decay(self.updates), device=averages[0].device)
                torch.ops.hpu.optimizer_ema(values, averages, decay)

    def update_attr(
        self, model: torch.nn.Module, include: Sequence[str] = (), exclude: Sequence[str] = ("process_group", "reducer")
    ) -> None:
        """Copy the model's attributes, those in `include` if there are any, to the average; none that begin with _.

        The average stays in evaluation mode.
        """
        for name, value in vars(model).items():
            if (include and name not in include) or name.startswith("_") or name in (*exclude, "training"):
                continue
            setattr(self.ema, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.ema(*args, **kwargs)
