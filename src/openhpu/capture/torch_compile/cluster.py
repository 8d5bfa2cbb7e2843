"""A cluster: operators of a compiled graph that run as one recipe. The first call captures it, later calls run it."""

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import fx

from openhpu import _C
from openhpu.capture.captured import Captured, Inputs, share_memory
from openhpu.capture.recent import Recent
from openhpu.capture.torch_compile import nodes
from openhpu.capture.torch_compile.options import Options
from openhpu.compiler.client import client
from openhpu.device import devices

_MOST_CAPTURES = 64  # of one graph, for inputs of different metadata
# A device has room for one capture at a time. A backward, on its own thread, may find a forward's under way.
_capturing = threading.Lock()


class Cluster:
    """`module`, whose nodes all run on one hpu device, and its captures.

    `whole`: not a part of a graph. `refuse` is called with each node that a capture can't hold, before it runs eagerly.
    `weights`: placeholders that are constants of the recipe, for as long as they stay where they are and nothing
    writes to them. A graph of varying sizes has none, since its one recipe serves all sizes.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        options: Options,
        refuse: Callable[[fx.Node], None],
        weights: frozenset[str] = frozenset(),
        whole: bool = True,
    ) -> None:
        self.module = module
        self._alone = options.force_static_compile
        self._refuse = refuse
        self._written = nodes.written_placeholders(module)
        # AOTAutograd sees to it that no argument shares memory with one that is written; a part of its graph may get
        # such a pair, and a recipe would not keep the order of reads and writes between two of its inputs.
        self._check_sharing = bool(self._written) and not whole
        self._varies = nodes.is_dynamic(module)
        placeholders = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        self.weights = frozenset(  # the arguments that are constants of the capture
            i for i, name in enumerate(placeholders) if name in weights and i not in self._written and not self._varies
        )
        self._constants = frozenset(
            tensor.untyped_storage().data_ptr() for tensor in nodes.constants(module) if tensor.device.type == "hpu"
        )
        self.captures: Recent[Hashable, Captured] = Recent(_MOST_CAPTURES)  # by metadata of the inputs that changes

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        if _C.is_capturing():
            return self.plain(args)  # becomes part of the graph around
        if self._check_sharing and share_memory(args, self._written):
            return self.plain(args)
        key = tuple(map(_kind, args)) if self._varies else None
        captured = self.captures.use(key)
        if captured is None:
            return self._capture(args, key)
        results = captured(args)
        if results is not None:
            return results
        if captured.inputs.moved(args):
            # Weights were replaced, or the graph serves several models: from now on they are inputs like others.
            self.weights = frozenset()
            return self._capture(args, key)
        return self.plain(args)

    def plain(self, args: Sequence[Any]) -> Sequence[Any]:
        """The results for `args`, operator by operator."""
        return self.module.forward(*args)  # type: ignore[no-any-return]

    def _capture(self, args: Sequence[Any], key: Hashable) -> Sequence[Any]:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        if not all(map(_can_be_input, tensors)) or not _capturing.acquire(blocking=False):
            return self.plain(args)
        try:
            client.start_compiling()
            device = tensors[0].device if tensors else nodes.device_of(self.module)  # None: the current one
            with devices.device(device), torch.no_grad():
                return self._capture_here(args, key)
        finally:
            _capturing.release()

    def _capture_here(self, args: Sequence[Any], key: Hashable) -> Sequence[Any]:
        inputs = Inputs(args, self._written, self.weights)
        graph = _C.CapturedGraph()
        try:
            graph.capture_begin()
        except RuntimeError:  # a capture by hand, on another thread
            return self.plain(args)
        interpreter = _Capturing(self.module, graph, self._refuse)
        try:
            graph.mark_user_inputs(inputs.tensors)
            graph.mark_weights(inputs.weights)
            outputs: Sequence[Any] = interpreter.run(*inputs.static)
            if not interpreter.refused:
                graph.capture_end()
        except BaseException as error:
            interpreter.under_way.abandon(type(error).__name__)
            raise
        finally:
            inputs.copy_back(args)
        if interpreter.refused:
            interpreter.under_way.abandon("it holds operators that can't be captured")
            return _for_caller(inputs, args, outputs)
        results = _for_caller(inputs, args, outputs)
        captured = Captured(graph, inputs, outputs, self._constants)
        graph.compile(self._alone)  # now that it is known which results are needed
        self.captures.add(key, captured)
        return results


def _for_caller(inputs: Inputs, args: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """Results of the capturing call, with those that lie in a copy of an argument in the argument itself."""
    results = []
    for value in outputs:
        place = inputs.owner(value) if isinstance(value, torch.Tensor) else None
        results.append(value if place is None else inputs.view_of(place, value)(args))
    return results


def _kind(arg: Any) -> Hashable:
    if isinstance(arg, torch.Tensor):
        return arg.shape, arg.stride(), arg.dtype
    return arg


def _can_be_input(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "hpu" and tensor.layout is torch.strided and not tensor.is_complex()


class _Capturing(fx.Interpreter):
    """Runs a module under a capture. After a refused operator it goes on, to find further refused operators."""

    def __init__(self, module: fx.GraphModule, graph: Any, refuse: Callable[[fx.Node], None]) -> None:
        super().__init__(module)
        self.refused = False
        self.under_way = graph
        self._refuse = refuse

    def run_node(self, n: fx.Node) -> Any:
        try:
            return super().run_node(n)
        except RuntimeError:
            if self.under_way.is_capturing():
                raise
        # The capture has ended, so the device takes the operator. What ran before it has run for good.
        self.refused = True
        self._refuse(n)
        result = super().run_node(n)
        self.under_way = _C.CapturedGraph()
        self.under_way.capture_begin()
        return result
