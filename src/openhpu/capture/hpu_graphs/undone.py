"""Captures that are undone: if a graph cannot hold the function, all is as if no capture had begun."""

import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from openhpu import _C
from openhpu.capture.hpu_graphs.capture import HPUGraph

_PAUSE_S = 0.002  # between two attempts to begin


class Uncapturable(Exception):
    """A graph cannot hold the function. The text names the operator and its line."""


class Busy(Exception):
    """Another thread captures on the device."""


class HostGenerators:
    """The states of the host's random generators: PyTorch's, Python's, and NumPy's where it is in use."""

    def __init__(self) -> None:
        self._numpy: Any = sys.modules.get("numpy.random")
        self._states = torch.get_rng_state(), random.getstate(), self._numpy and self._numpy.get_state()

    def restore(self) -> None:
        """Give all of them the states that they had."""
        own, python, numpy = self._states
        torch.set_rng_state(own)
        random.setstate(python)
        if self._numpy:
            self._numpy.set_state(numpy)


@contextmanager
def undone_capture(
    graph: HPUGraph, generators: HostGenerators, compile: bool = True, patience_s: float = 0.0
) -> Iterator[None]:
    """Capture the with block, on the device a dry run.

    Raises Busy where another thread captures, for longer than `patience_s` seconds.

    Raises Uncapturable where the block did, and where it met what no graph can hold, whether it handled that error or
    not. Then the device's memory and its random generator are as they were before, and the host's as in `generators`.
    Every other error of the block is raised as it is. Python objects that the block changed stay changed.
    """
    _begin(graph, time.monotonic() + patience_s)
    try:
        yield
        refusal = graph.refusal()
        if not refusal:
            graph.capture_end(compile)
            return
    except BaseException as error:
        refusal = str(error) if isinstance(error, Uncapturable) else graph.refusal()
        if not refusal or not isinstance(error, Exception):
            graph.abandon(type(error).__name__)
            raise
    graph.abandon(refusal)
    generators.restore()
    raise Uncapturable(refusal)


def _begin(graph: HPUGraph, until: float) -> None:
    while True:
        try:
            graph.capture_begin_undone()
            return
        except RuntimeError as error:
            here = _C.is_capturing()  # captures do not nest
            if here or "a graph capture is already in progress" not in str(error):
                raise
            if time.monotonic() >= until:
                raise Busy(str(error)) from error
        time.sleep(_PAUSE_S)


class OneWarning:
    """Says once for each reason why something runs without a graph."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._said: set[str] = set()

    def __call__(self, what: Callable[..., Any], reason: Uncapturable, stacklevel: int) -> None:
        if str(reason) in self._said:
            return
        self._said.add(str(reason))
        name = getattr(what, "__qualname__", type(what).__name__)
        warnings.warn(f"{self._who}: {name} runs without a graph, as it is: {reason}", RuntimeWarning, stacklevel)
