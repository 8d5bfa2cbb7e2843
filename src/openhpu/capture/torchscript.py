"""TorchScript on hpu: the operators of a traced or scripted graph, captured once for each kind of arguments.

The core puts runs of operators of an optimised graph into one node each, once PyTorch's profiling runs have shown that
its tensors are on hpu. Source of the names: torch.jit.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from openhpu import _C
from openhpu.capture.captured import Captured, Inputs, share_memory
from openhpu.capture.hpu_graphs.structure import context_key
from openhpu.capture.recent import Recent
from openhpu.compiler.client import client

# Kinds of arguments (sizes, dtypes, numbers) for which a group of operators keeps a capture.
_MOST_CAPTURES = 16


class Captures:
    """Captures of `plain`, which runs a group of operators on a list of arguments and returns its tensors.

    `mutates`: some of the operators change an operand in place. Called by the core with the arguments of a run.
    """

    def __init__(self, plain: Callable[[Sequence[Any]], list[torch.Tensor]], mutates: bool) -> None:
        self._plain = plain
        self._mutates = mutates
        self._captures: Recent[Hashable, Captured | None] = Recent(_MOST_CAPTURES)

    def __call__(self, args: Sequence[Any]) -> Sequence[torch.Tensor]:
        if self._mutates and share_memory(args, range(len(args))):
            return self._plain(args)
        state = context_key(False), _C.current_device()
        key = state, *((a.shape, a.stride(), a.dtype) if isinstance(a, torch.Tensor) else repr(a) for a in args)
        if key not in self._captures:
            self._capture(args, key)
        captured = self._captures.use(key)
        results = None if captured is None else captured(args)
        return self._plain(args) if results is None else results

    def _capture(self, args: Sequence[Any], key: Hashable) -> None:
        """Adds None for operators that a graph can't hold, which run one by one from then on."""
        client.start_compiling()
        graph = _C.CapturedGraph()
        captured = None
        inputs = Inputs(args, frozenset())
        before = _metadata(inputs.static)
        try:
            graph.capture_begin(dry_run=True)  # on the device nothing runs: if it fails, all is as it was before
        except RuntimeError:  # a capture on another thread
            return
        try:
            graph.mark_user_inputs(inputs.tensors)
            outputs = self._plain(inputs.static)
            graph.capture_end()
            # A replay changes no metadata of its arguments.
            if _metadata(inputs.static) == before:
                captured = Captured(graph, inputs, outputs, frozenset())
                graph.compile()
        except RuntimeError:  # an error of the script's own comes again
            pass
        finally:
            graph.abandon("it was not finished")
        self._captures.add(key, captured)


def _metadata(args: Sequence[Any]) -> list[Hashable]:
    return [(a.shape, a.stride(), a.data_ptr()) for a in args if isinstance(a, torch.Tensor)]
