"""Faults on purpose, for the test of this suite: a wrong result, an error, a crash and hangs."""

import functools
import os
import signal
import time

import torch

from commands import BUILD

PLANTS = ("wrong", "error", "crash", "hang")


def plant_if_asked() -> None:
    if kind := os.environ.get("OPENHPU_CONFORMANCE_PLANT"):
        plant(kind)


def _hang(name: str) -> None:
    (BUILD / f"{name} hangs").touch()
    time.sleep(3600)


@functools.cache
def plant(kind: str) -> None:
    """From now on torch.sin is wrong, raises, ends the process, or hangs, for operands on the device.

    Where it hangs, torch.sinc does, too, in a process that has closed its output.
    """
    from tests.conformance.database import operators

    op, other = operators()["sin"], operators()["sinc"]
    right, sinc = op.op, other.op

    def wrong(x: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        result = right(x, *args, **kwargs)
        if x.device.type != "hpu":
            return result
        if kind == "error":
            raise RuntimeError("planted")
        if kind == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if kind == "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            _hang("sin")
        return result + 1 if result.numel() else result

    def mute(x: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        if x.device.type == "hpu":
            os.closerange(1, 20)
            _hang("sinc")
        return sinc(x, *args, **kwargs)

    op.op = wrong
    if kind == "hang":
        other.op = mute
