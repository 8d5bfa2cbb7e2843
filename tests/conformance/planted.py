"""Faults on purpose, for the test of this suite: a wrong result, an error and a crash."""

import functools
import os
import signal

import torch

from tests.conformance.database import operators

PLANTS = ("wrong", "error", "crash")


def plant_if_asked() -> None:
    if kind := os.environ.get("OPENHPU_CONFORMANCE_PLANT"):
        plant(kind)


@functools.cache
def plant(kind: str) -> None:
    """From now on torch.sin is wrong, raises, or ends the process, for operands on the device."""
    op = operators()["sin"]
    right = op.op

    def wrong(x: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        result = right(x, *args, **kwargs)
        if x.device.type != "hpu":
            return result
        if kind == "error":
            raise RuntimeError("planted")
        if kind == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        return result + 1 if result.numel() else result

    op.op = wrong
