"""Tiny models of diffusers and what they are called with, fixed here so that runs compare."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import diffusers
import torch

from ecosystem.both import moved

Arguments = dict[str, Any]


class Model(NamedTuple):
    """A model of diffusers. `inputs`: names of `_INPUTS` with their arguments, by the names that its forward has."""

    kind: str
    configuration: Arguments
    inputs: dict[str, tuple[Any, ...]]


def image(channels: int = 4, size: int = 8, rows: int = 2) -> torch.Tensor:
    return torch.randn(rows, channels, size, size)


def words(length: int = 5, width: int = 16) -> torch.Tensor:
    return torch.randn(2, length, width)


def time() -> torch.Tensor:
    return torch.tensor([10, 400])


def values(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers)


def flux_ids(length: int) -> torch.Tensor:
    return torch.stack([torch.zeros(length), torch.arange(length), torch.arange(length)], 1).float()


def no_conditions() -> Arguments:
    return {"aspect_ratio": None, "resolution": None}


_INPUTS: dict[str, Callable[..., Any]] = {
    "image": image,
    "words": words,
    "time": time,
    "values": values,
    "numbers": torch.randn,
    "zeros": torch.zeros,
    "flux_ids": flux_ids,
    "no_conditions": no_conditions,
}


def _tuples(table: Arguments) -> Arguments:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}


def _read() -> dict[str, Model]:
    tables = tomllib.loads(Path(__file__).with_name("models.toml").read_text())
    return {
        name: Model(table["class"], _tuples(table["configuration"]), _tuples(table["inputs"]))
        for name, table in tables.items()
    }


MODELS = _read()
SCHEDULERS = (
    "DDPMScheduler",
    "DDIMScheduler",
    "PNDMScheduler",
    "LMSDiscreteScheduler",
    "EulerDiscreteScheduler",
    "EulerAncestralDiscreteScheduler",
    "HeunDiscreteScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSinglestepScheduler",
    "KDPM2DiscreteScheduler",
    "UniPCMultistepScheduler",
    "DEISMultistepScheduler",
    "SASolverScheduler",
    "LCMScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "FlowMatchHeunDiscreteScheduler",
    "EDMEulerScheduler",
    "EDMDPMSolverMultistepScheduler",
    "TCDScheduler",
    "DDIMInverseScheduler",
    "IPNDMScheduler",
)


def make(name: str) -> Any:
    """The model on the CPU, the same each time, without weights that are zero."""
    described = MODELS[name]
    torch.manual_seed(0)
    model = getattr(diffusers, described.kind)(**described.configuration).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape) * 0.02)
    return model


def given(name: str, device: str) -> Arguments:
    """Its arguments on the device, the same each time."""
    torch.manual_seed(1)
    inputs = {key: _INPUTS[function](*arguments) for key, (function, *arguments) in MODELS[name].inputs.items()}
    return moved(inputs, device)  # type: ignore[no-any-return]
