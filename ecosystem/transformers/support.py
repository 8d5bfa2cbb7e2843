"""A model of the table and its inputs, and what is compared."""

from typing import Any

import torch
import transformers

from ecosystem.both import moved, shaken
from ecosystem.transformers.inputs import INPUTS
from ecosystem.transformers.models import Model

# Float32's rounding over some layers. Kernels are the CPU's, but products may be split otherwise.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
LABELS = ("labels", "start_positions", "end_positions", "return_loss", "future_values")


def make(model: Model) -> Any:
    """The model on the CPU, the same each time."""
    torch.manual_seed(0)
    kind = getattr(transformers, model.name)
    return shaken(kind(kind.config_class(**model.config)).eval(), 0.05)


def arguments(model: Model, device: str) -> dict[str, Any]:
    """The same inputs each time, on `device`."""
    torch.manual_seed(1)
    return moved(INPUTS[model.inputs](), device)


def tensors(output: Any) -> dict[str, torch.Tensor]:
    """The floating-point tensors of a model's output that have a name."""
    return {name: value for name, value in output.items() if isinstance(value, torch.Tensor)}
