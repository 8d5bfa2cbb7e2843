"""HPU graphs and compiled regions: their inputs and outputs, since no operator inside can be seen.

The mode is off inside a compiled region: with a mode on, PyTorch would not compile it.
"""

import functools
import time
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from openhpu_record import describing, device as devices

if TYPE_CHECKING:
    from openhpu_record.recorder import Recorder


class Borders:
    """What is patched while a recorder runs: torch.compile, Module.compile, and Gaudi's graphs once they exist."""

    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder
        self._patched: list[tuple[Any, str, Any]] = []
        self._graphs = False
        self._inside = 0  # of a compiled region or a graphed module
        self._opened: list[torch.nn.Module] = []  # whose forward passes are borders
        self._what = ""
        self._values: list[Any] = []
        self._began = 0.0
        self._modules: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._capture: list[Any] = []  # weak references to tensors of the capture that runs
        self._made: set[int] = set()
        self._known: weakref.WeakKeyDictionary[Any, tuple[list[Any], list[Any]]] = weakref.WeakKeyDictionary()
        self.ran = False  # a border was passed in this recording

    def start(self) -> None:
        """Patch what PyTorch has."""
        self._patch(torch, "compile", self._compile)
        self._patch(torch.nn.Module, "compile", self._compile_module)

    def end(self) -> None:
        """Undo it."""
        for owner, name, before in reversed(self._patched):
            setattr(owner, name, before)
        self._patched = []

    def _patch(self, owner: Any, name: str, wrapper: Any) -> None:
        before = getattr(owner, name, None)
        if before is None:
            return

        @functools.wraps(before)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return wrapper(before, *args, **kwargs)

        self._patched.append((owner, name, before))
        setattr(owner, name, patched)

    def patch_graphs(self) -> None:
        """Gaudi's graphs, which the device's package has."""
        kind = getattr(getattr(torch, "hpu", None), "HPUGraph", None)
        if not self._graphs and kind is not None:
            self._graphs = True
            self._patch(kind, "replay", self._replay)
            self._patch(kind, "capture_end", self._capture_end)

    # Compiled regions.

    def _compile(self, before: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = before(*args, **kwargs)
        if isinstance(compiled, torch.nn.Module):
            self._modules.add(compiled)
            return compiled
        if not args and not kwargs.get("model"):  # a decorator with options

            def decorate(function: Any) -> Any:
                found = compiled(function)
                return self._function(found) if not isinstance(found, torch.nn.Module) else found

            return decorate
        return self._function(compiled)

    def _compile_module(self, before: Any, *args: Any, **kwargs: Any) -> Any:
        found = before(*args, **kwargs)
        (module, *_) = args
        call = module._compiled_call_impl
        if call is not None:
            module._compiled_call_impl = self._function(call, type(module).__name__)
        return found

    def _function(self, function: Any, name: str = "") -> Any:
        """A compiled function, whose calls are borders."""

        @functools.wraps(function)
        def border(*args: Any, **kwargs: Any) -> Any:
            recorder = self._recorder
            if not recorder.recording or self._inside:
                return function(*args, **kwargs)
            values = self._described((args, kwargs))
            self._inside += 1
            began = time.perf_counter()
            try:
                with recorder.paused():
                    result = function(*args, **kwargs)
            finally:
                self._inside -= 1
            self._event("compiled", name or getattr(function, "__name__", "?"), values, result, began)
            return result

        return border

    # Modules that are compiled or graphed: hooks call these two.

    def enters(self, module: torch.nn.Module, values: Any) -> None:
        """A forward pass begins."""
        # Gaudi's wrapper of a module adds `clear_cache` to it.
        graphed = "clear_cache" in vars(module)
        if self._recorder.recording and not self._inside and (graphed or module in self._modules):
            self._what = "graph" if graphed else "compiled"
            self._inside += 1
            self._opened.append(module)
            self._values = self._described(values)
            self._began = time.perf_counter()
            self._recorder.pause()

    def leaves(self, module: torch.nn.Module, result: Any) -> None:
        """It ends, perhaps by an error."""
        if self._opened and self._opened[-1] is module:
            self._opened.pop()
            self._inside -= 1
            self._recorder.resume()
            name = type(getattr(module, "_orig_mod", module)).__name__
            self._event(self._what, name, self._values, result, self._began)

    # Graphs.

    def captures(self, function: Any, args: Any, kwargs: Any) -> bool:
        """Whether an operator is captured: no value can be read, and its operands are the graph's inputs."""
        if not devices.captures(self._recorder.device):
            return False
        for one in tree_leaves((args, kwargs)):
            if isinstance(one, torch.Tensor) and id(one) not in self._made:
                self._capture.append((weakref.ref(one), True))
                self._made.add(id(one))
        return True

    def captured(self, result: Any) -> None:
        """What it gave: results of the graph, if they are alive at its end."""
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor) and id(one) not in self._made:
                self._capture.append((weakref.ref(one), False))
                self._made.add(id(one))

    def _capture_end(self, before: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        """The tensors of the capture belong to this graph."""
        found = before(graph, *args, **kwargs)
        inputs = [one for one, given in self._capture if given]
        outputs = [one for one, given in self._capture if not given and one() is not None]
        self._known[graph] = inputs, outputs
        self._capture, self._made = [], set()
        return found

    def _replay(self, before: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        """A graph runs: its inputs and outputs, as far as its capture was recorded."""
        recorder = self._recorder
        if not recorder.recording or devices.captures(recorder.device):
            return before(graph, *args, **kwargs)
        inputs, outputs = self._known.get(graph, ([], []))
        values = self._described([one() for one in inputs])
        began = time.perf_counter()
        found = before(graph, *args, **kwargs)
        self._event("graph", "HPUGraph", values, [one() for one in outputs], began)
        return found

    def _described(self, values: Any) -> list[Any]:
        """What tensors are now. Reads them."""
        with self._recorder.paused():
            tensors = [one for one in tree_leaves(values) if isinstance(one, torch.Tensor)]
            return [found for one in tensors if (found := self._recorder.guarded(describing.described, one))]

    def _event(self, what: str, name: str, values: list[Any], result: Any, began: float) -> None:
        self.ran = True
        recorder = self._recorder
        devices.synchronize(recorder.device)
        seconds = time.perf_counter() - began
        outputs = self._described(result)
        recorder.writer.event(
            "border", what=what, name=name, step=recorder.number, inputs=values, outputs=outputs, seconds=seconds
        )
