"""Devices in arguments: cuda is hpu."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from openhpu.integration.migration import migration_log

_NAMES = (str, torch.device)


def on_hpu(value: Any) -> Any:
    """hpu for the name or the object of a CUDA device, and hccl for nccl, also in lists such as cpu:gloo,cuda:nccl."""
    if type(value) is torch.device:
        return torch.device("hpu", value.index) if value.type == "cuda" else value
    if type(value) is not str or not ("cuda" in value or "nccl" in value):
        return value
    parts = [part.split(":") for part in value.split(",")]
    known = {"cuda": "hpu", "nccl": "hccl"}
    return ",".join(":".join(known.get(word, word) for word in part) for part in parts)


def translating(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function`, the CUDA name `name`, with `on_hpu` of its arguments."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        translated = False
        for place, value in enumerate(args):
            if type(value) in _NAMES and (other := on_hpu(value)) is not value:
                args = (*args[:place], other, *args[place + 1 :])
                translated = True
        for key, value in kwargs.items():
            if type(value) in _NAMES and (other := on_hpu(value)) is not value:
                kwargs[key] = other
                translated = True
        if translated and migration_log.level:
            migration_log.used(name)
        return function(*args, **kwargs)

    return call
