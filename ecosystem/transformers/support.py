"""A model of the table and its inputs, and what is compared."""

from functools import partial
from typing import Any

import torch
import transformers
from torch.testing import assert_close

from ecosystem.both import moved, shaken
from ecosystem.transformers import inputs
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
    return moved(getattr(inputs, model.inputs)(), device)


def tensors(output: Any) -> dict[str, torch.Tensor]:
    """The floating-point tensors of a model's output that have a name."""
    return {name: value for name, value in output.items() if isinstance(value, torch.Tensor)}


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """Asserts that the device's tensors are the CPU's, and lie on the device."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].device.type == "hpu", name
        largest = float(value.abs().max()) if value.is_floating_point() and value.numel() else 1.0
        assert_close(
            found[name].cpu(), value, rtol=CLOSE["rtol"], atol=CLOSE["atol"] * max(largest, 1.0),
            msg=partial("{}: {}".format, name),
        )  # fmt: skip
