"""Captures that are undone: if a graph cannot hold the function, all is as if no capture had begun."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from openhpu.capture.hpu_graphs.capture import HPUGraph
from openhpu.capture.hpu_graphs.structure import Unsuitable, Walk, overlaps


class Uncapturable(Exception):
    """A graph cannot hold the function. The text names the operator and its line."""


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
def undone_capture(graph: HPUGraph, generators: HostGenerators, compile: bool = True) -> Iterator[None]:
    """Capture the with block, on the device a dry run.

    Raises Uncapturable where the block did, and where it met what no graph can hold, whether it handled that error or
    not. Then the device's memory and its random generator are as they were before, and the host's as in `generators`.
    Every other error of the block is raised as it is. Python objects that the block changed stay changed.
    """
    graph.capture_begin_undone()
    try:
        yield
        refusal = graph.refusal()
        if not refusal:
            graph.capture_end(compile)
            return
    except Exception as error:
        refusal = str(error) if isinstance(error, Uncapturable) else graph.refusal()
        if not refusal:
            graph.abandon(type(error).__name__)
            raise
    except BaseException as error:
        graph.abandon(type(error).__name__)
        raise
    graph.abandon(refusal)
    generators.restore()
    raise Uncapturable(refusal)


def copied(walk: Walk, tensors: Sequence[Any], made: dict[int, Any] | None = None) -> Any:
    """`walk.put(tensors)`. Raises Uncapturable where that is not the same but for the tensors."""
    try:
        copy = walk.put(tensors, made)
        place = walk.again(walk.value, metadata=False).difference(walk.again(copy, metadata=False), others=True)
    except Exception as error:  # of the code of any class
        raise Uncapturable(f"{walk.place(None)} can't be copied ({type(error).__name__}: {error})") from error
    if place is not None:
        raise Uncapturable(f"{place} can't be copied: the copy is not the same")
    return copy


class Copies:
    """The arguments that a function gets at its capture: copies with other tensors, so that its changes can be seen."""

    def __init__(self, given: Walk, tensors: Sequence[torch.Tensor]) -> None:
        self._made: dict[int, Any] = {}  # weak references refer to some
        self.value = copied(given, tensors, self._made)
        self._before = given.again(self.value)
        self.tensors: list[torch.Tensor] = self._before.tensors  # in the order of those that they replace
        self._overlaps = [(i, k) for pair in overlaps(given.tensors) for i, k in (pair, pair[::-1])]
        self._storages = [tensor.untyped_storage() for tensor in self.tensors]  # held, so that no other gets its place
        self._layouts = [*map(_layout, self.tensors)]
        self._versions = [None if tensor.is_inference() else tensor._version for tensor in self.tensors]

    def written(self) -> list[int]:
        """The numbers of the tensors that the function writes to, as far as that is known."""
        now = [None if tensor.is_inference() else tensor._version for tensor in self.tensors]
        return [i for i, (a, b) in enumerate(zip(self._versions, now, strict=True)) if a is None or a != b]

    def check(self) -> None:
        """Raises Uncapturable where the function has changed an argument in another way than by writing to a tensor."""
        try:
            place = self._before.difference(self._before.again(self.value))
        except Unsuitable as error:
            raise Uncapturable(f"it changes an argument: {error}") from None
        for tensor, layout in zip(self.tensors, self._layouts, strict=True):
            if _layout(tensor) != layout:
                place = self._before.place(tensor)
        if place is not None:
            raise Uncapturable(f"it changes {place}, which a replay can't do; write to tensors in place, or return it")
        written = self.written()
        for i, k in self._overlaps:
            if i in written:
                one, other = (self._before.place(self.tensors[n]) for n in (i, k))
                raise Uncapturable(f"it writes to {one}, which shares memory with {other}; give one of them as a clone")


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride()


def walk_results(results: Any, anywhere: bool = False) -> Walk:
    """The walk through results. Raises Uncapturable for one that a replay can't renew, as on the host (`anywhere`)."""
    try:
        walk = Walk(results, "its result")
    except Unsuitable as error:
        raise Uncapturable(str(error)) from None
    for tensor in walk.tensors:
        if tensor.device.type != "hpu" and not anywhere:
            raise Uncapturable(f"a result is on {tensor.device}, where a replay can't renew it; return it on hpu")
    copied(walk, walk.tensors)
    return walk


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
