"""TorchScript on hpu: the operators of a traced or scripted graph, captured once for each kind of arguments.

The core puts runs of operators of an optimised graph into one node each, once PyTorch's profiling runs have shown that
its tensors are on hpu. Source of the names: torch.jit.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from openhpu import _C
from openhpu.capture.captured import Captured, Inputs, share_memory
from openhpu.capture.recent import Recent
from openhpu.compiler.client import client
from openhpu.device import devices

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
        key = tuple((a.shape, a.stride(), a.dtype) if isinstance(a, torch.Tensor) else (type(a), a) for a in args)
        if key not in self._captures:
            self._captures.add(key, self._capture(args))
        captured = self._captures.use(key)
        results = None if captured is None else captured(args)
        return self._plain(args) if results is None else results

    def _capture(self, args: Sequence[Any]) -> Captured | None:
        """None for operators that a graph can't hold, which run one by one from then on."""
        client.start_compiling()
        places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
        written = frozenset(places if self._mutates else ())
        graph = _C.CapturedGraph()
        with devices.device(args[places[0]].device), torch.no_grad():
            inputs = Inputs(args, written)
            graph.capture_begin(dry_run=True)  # on the device nothing runs: if it fails, all is as it was before
            try:
                graph.mark_user_inputs(inputs.tensors)
                outputs = self._plain(inputs.static)
                graph.capture_end()
            except BaseException as error:
                refused = isinstance(error, RuntimeError) and not graph.is_capturing()
                graph.abandon(type(error).__name__)
                if refused:
                    return None
                raise
            captured = Captured(graph, inputs, outputs, frozenset())
        graph.compile()
        return captured
