"""Layers that repeat: a model's layer that is like one before it is not run again while a call is recorded.

Its operators are copied from the recording of the other one, with memory of their own. Layers are alike if their
modules have the same classes, the same plain attributes but for names and numbers of layers, and parameters of the same
shapes and types, and if they are called with operands of the same shapes and types.
"""

import copy
import functools
import re
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from openhpu_predict.recording import Recorder

_PLAIN = (bool, int, float, str, type(None), torch.dtype)
_NUMBER = re.compile(r"\d+")
_NAMES = re.compile("name|prefix|layer_id|layer_index|idx|training")


class Repeats:
    """The layers of one recorded call. `recorder` records it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._seen: dict[Hashable, tuple[int, int, list[Any], Any, list[Any]]] = {}
        self.copied = 0

    def call(self, like: Hashable, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of a layer's call: recorded, or copied from a layer that is alike."""
        given, form = tree_flatten((args, kwargs))
        key = like, str(form), tuple(_shape(one) for one in given)
        recording, recorder = self._recorder.recording, self._recorder
        if key not in self._seen:
            begin = len(recording.nodes)
            result = function(*args, **kwargs)
            leaves, made = tree_flatten(result)
            end = len(recording.nodes)
            known = [_id(recorder, one) for one in given]
            self._seen[key] = begin, end, known, made, [_form(recorder, one) for one in leaves]
            return result
        begin, end, inputs, made, outputs = self._seen[key]
        moved: dict[int | None, int] = {}  # numbers of the other layer's storages, and of this one's
        for old, new in zip(inputs, given, strict=True):
            if old is not None:
                moved[old] = recorder.number(new)
        self._copy(begin, end, moved)
        self.copied += 1
        return tree_unflatten([_made(recorder, one, moved) for one in outputs], made)

    def _copy(self, begin: int, end: int, moved: dict[int | None, int]) -> None:
        """Record the nodes from `begin` to before `end` again, with the storages of `moved`, to which it adds those
        that these nodes make."""
        recording = self._recorder.recording
        shift = len(recording.nodes) - begin
        for number in range(len(recording.blocks)):
            block = recording.blocks[number]
            if begin <= block.born < end and number not in moved:
                moved[number] = len(recording.blocks)
                died = block.died + shift if block.died is not None and block.died <= end else None
                recording.blocks.append(type(block)(block.bytes, block.born + shift, block.category, died))
        for node in recording.nodes[begin:end]:
            twin = copy.copy(node)
            twin.reads = {moved.get(key, key): size for key, size in node.reads.items()}
            twin.writes = {moved.get(key, key): size for key, size in node.writes.items()}
            twin.cut = node.cut
            recording.nodes.append(twin)


def alike(layer: torch.nn.Module) -> tuple[Any, ...]:
    """What two layers have in common that do the same."""
    found: list[Any] = []
    for module in layer.modules():
        found.append((type(module).__module__, type(module).__qualname__))
        found += _plain(vars(module))
        for value in vars(module).values():  # objects of the model's library, as an attention's implementation
            if type(value).__module__.startswith("vllm") and hasattr(value, "__dict__"):
                found.append((type(value).__qualname__, *_plain(vars(value))))
        for name, one in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            found.append((name, *_shape(one)))
    return tuple(found)


def of(model: torch.nn.Module, now: Callable[[], Repeats | None]) -> None:
    """Let the members of the model's lists of modules repeat while `now` gives a recording."""
    for modules in [one for one in model.modules() if isinstance(one, torch.nn.ModuleList)]:
        for layer in modules:
            layer.forward = _forward(layer, now)  # type: ignore[method-assign]


def _forward(layer: torch.nn.Module, now: Callable[[], Repeats | None]) -> Callable[..., Any]:
    function = layer.forward
    like = functools.cache(functools.partial(alike, layer))

    @functools.wraps(function)
    def forward(*args: Any, **kwargs: Any) -> Any:
        repeats = now()
        if repeats is None:
            return function(*args, **kwargs)
        return repeats.call(like(), function, args, kwargs)

    return forward


def _plain(attributes: dict[str, Any]) -> list[Any]:
    return [
        (name, _NUMBER.sub("", value) if isinstance(value, str) else value)
        for name, value in sorted(attributes.items())
        if isinstance(value, _PLAIN) and not _NAMES.search(name)
    ]


def _shape(one: Any) -> Any:
    if isinstance(one, torch.Tensor):
        return tuple(one.shape), one.dtype
    return one if isinstance(one, _PLAIN) else type(one)


def _id(recorder: Recorder, one: Any) -> int | None:
    return recorder.number(one) if isinstance(one, torch.Tensor) else None


class _Form(NamedTuple):
    """A tensor that a layer returned, without its memory: who kept it would keep the memory alive."""

    size: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    number: int


def _form(recorder: Recorder, one: Any) -> Any:
    if not isinstance(one, torch.Tensor):
        return one
    return _Form(one.shape, one.stride(), one.dtype, one.device, recorder.number(one))


def _made(recorder: Recorder, one: Any, moved: dict[int | None, int]) -> Any:
    """What the copied layer returns in the place of `one`."""
    if not isinstance(one, _Form):
        return one
    within, recorder.within = recorder.within, True
    try:
        found = torch.empty_strided(one.size, one.stride, dtype=one.dtype, device=one.device)
    finally:
        recorder.within = within
    if one.number in moved:
        recorder.takes(found, moved[one.number])
    else:
        recorder.number(found, one.number)
    return found
