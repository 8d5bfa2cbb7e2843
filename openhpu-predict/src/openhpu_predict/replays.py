"""HPU graphs while a recorder watches: a replay counts as the operators that its capture recorded."""

import contextlib
import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

from openhpu.capture.hpu_graphs.capture import HPUGraph

if TYPE_CHECKING:
    from openhpu_predict.recording import Recorder

_REPLAYS = ("replay", "replayV2", "replayV3", "run")


@contextlib.contextmanager
def counted(recorder: "Recorder") -> Iterator[None]:
    """Count the replays of HPU graphs whose captures begin within.

    The memory of a graph is that of its capture; a replay takes none.
    """
    recording = recorder.recording
    spans: weakref.WeakKeyDictionary[HPUGraph, list[int]] = weakref.WeakKeyDictionary()
    results: weakref.WeakKeyDictionary[HPUGraph, list[int]] = weakref.WeakKeyDictionary()

    def begin(graph: HPUGraph, *_: Any) -> None:
        spans[graph] = [len(recording.nodes)]

    def end(graph: HPUGraph, *_: Any) -> None:
        spans[graph].append(len(recording.nodes))

    def outputs(graph: HPUGraph, _result: None, tensors: list[torch.Tensor], *_: Any, **__: Any) -> None:
        results[graph] = [recorder.number(one) for one in tensors]

    def replayed(graph: HPUGraph, result: Any, *_: Any, **__: Any) -> None:
        if len(span := spans.get(graph, [])) == 2:
            _again(recorder, *span)
            for one, number in zip(result or (), results.get(graph, ()), strict=False):
                recorder.number(one, number)

    after: dict[str, Callable[..., None]] = {
        "capture_begin": begin,
        "capture_begin_undone": begin,
        "capture_end": end,
        "mark_user_outputs": outputs,
        **dict.fromkeys(_REPLAYS, replayed),
    }

    def wrapped(name: str, then: Callable[..., None]) -> Callable[..., Any]:
        original = getattr(HPUGraph, name)

        @functools.wraps(original)
        def call(graph: HPUGraph, *args: Any, **kwargs: Any) -> Any:
            result = original(graph, *args, **kwargs)
            if not recorder.ended:
                then(graph, result, *args, **kwargs)
            return result

        return call

    calls: dict[str, Any] = {name: wrapped(name, then) for name, then in after.items()}
    with mock.patch.multiple(HPUGraph, **calls):
        yield


def _again(recorder: "Recorder", begin: int, end: int) -> None:
    """Record the nodes from `begin` to `end` once more. What lived only among them is other storages now."""
    recording = recorder.recording
    shift = len(recording.nodes) - begin
    blocks = recording.blocks
    fresh: dict[int, int] = {}

    def moved(sizes: dict[int, int]) -> dict[int, int]:
        found = {}
        for key, size in sizes.items():
            block = blocks[key]
            if begin <= block.born and block.died is not None and block.died <= end:
                if key not in fresh:
                    fresh[key] = len(blocks)
                    blocks.append(dataclasses.replace(block, bytes=0, born=block.born + shift, died=block.died + shift))
                key = fresh[key]
            found[key] = size
        return found

    recording.graphs = True
    recorder.cut("graph")
    for node in recording.nodes[begin:end]:
        recording.nodes.append(dataclasses.replace(node, reads=moved(node.reads), writes=moved(node.writes), cut=""))
    recorder.cut("graph")
