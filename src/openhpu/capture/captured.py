"""One capture of one FX graph. A call's arguments become the capture's inputs, and its outputs become the results."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._prims_common import make_contiguous_strides_for

from openhpu import _C

Output = Callable[[Sequence[Any], Sequence[torch.Tensor]], Any]


def fills_its_storage(tensor: torch.Tensor) -> bool:
    """Whether a capture can take other memory in place of this tensor's."""
    whole = not tensor.storage_offset() and tensor.nbytes == tensor.untyped_storage().nbytes()
    return whole and tensor.is_contiguous() and not tensor.is_neg()


def _bits(value: torch.Tensor, origin: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """What gives a view the conjugate and negative bits that `value` has and `origin`, whose memory it is, has not."""
    conj, neg = value.is_conj() != origin.is_conj(), value.is_neg() != origin.is_neg()

    def set_bits(view: torch.Tensor) -> torch.Tensor:
        view = view.conj() if conj else view
        return torch._neg_view(view) if neg else view

    return set_bits


def share_memory(args: Sequence[Any], places: Iterable[int]) -> bool:
    """Whether another argument lies in the storage of one at these places."""
    storages = [arg.untyped_storage().data_ptr() if isinstance(arg, torch.Tensor) else 0 for arg in args]
    return any(storages[i] and storages.count(storages[i]) > 1 for i in places)


class Inputs:
    """The tensors among a graph's arguments, as a capture reads them.

    A capture is tied to no memory only where an input is all of a storage. So an argument of other strides is given as
    the flat range of memory that it spans, and viewed again inside. At the capture, one that is part of a storage, or
    shares it with another argument, is replaced by a copy, which is copied back if the graph writes it. The arguments
    at the places `fixed` are no inputs: the capture reads them where they lie.
    """

    def __init__(self, args: Sequence[Any], written: frozenset[int], fixed: frozenset[int] = frozenset()) -> None:
        tensors = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
        self.places = [i for i in tensors if i not in fixed]
        self.weights = [args[i].detach() for i in tensors if i in fixed]
        self.addresses = [(i, args[i].data_ptr()) for i in tensors if i in fixed]
        self.static = list(args)  # the arguments at the capture
        self.tensors: list[torch.Tensor] = []  # the inputs of the capture
        self.flat: dict[int, tuple[torch.Size, tuple[int, ...]]] = {}  # by place: sizes and strides
        self._owners: dict[int, int] = {}  # address of a storage: place
        self._copied: list[tuple[int, torch.Tensor]] = []
        seen = {weight.untyped_storage().data_ptr() for weight in self.weights}
        self.fixed_storages = frozenset(seen)
        for i in self.places:
            self._add(i, args[i], seen, i in written)
        self.identity = not self.flat and len(self.places) == len(args)

    def _add(self, i: int, arg: torch.Tensor, seen: set[int], written: bool) -> None:
        tensor = arg = arg.detach()
        if arg.stride() != make_contiguous_strides_for(arg.size()):  # also in dimensions of size 1
            self.flat[i] = (arg.size(), arg.stride())
            tensor = _span(arg)
        address = tensor.untyped_storage().data_ptr()
        if not fills_its_storage(tensor) or address in seen:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
            if written:
                self._copied.append((i, tensor))
        seen.add(address)
        self.static[i] = tensor.as_strided(*self.flat[i], 0) if i in self.flat else tensor
        self._owners[tensor.untyped_storage().data_ptr()] = i
        self.tensors.append(tensor)

    def copy_back(self, args: Sequence[Any]) -> None:
        """Copies the results of the capture from its copies into the arguments."""
        for i, tensor in self._copied:
            target = args[i].detach()
            target.copy_(tensor.as_strided(target.size(), target.stride(), 0) if i in self.flat else tensor)

    def view_of(self, place: int, value: torch.Tensor) -> Callable[[Sequence[Any]], torch.Tensor]:
        """What makes of other arguments the view of `place` that `value` is of the captured one."""
        static = self.static[place]
        size, stride, offset, dtype = value.size(), value.stride(), value.storage_offset(), value.dtype
        same = (size, stride, offset, dtype) == (static.size(), static.stride(), 0, static.dtype)
        bits = _bits(value, static)

        def view(args: Sequence[Any]) -> torch.Tensor:
            arg = args[place]
            if same:
                return bits(arg)
            arg = arg.detach()
            first = arg.storage_offset()
            if dtype != arg.dtype:
                first = first * arg.element_size() // dtype.itemsize
                arg = torch.empty(0, dtype=dtype, device=arg.device).set_(arg.untyped_storage())
            return bits(arg.as_strided(size, stride, offset + first))

        return view

    def forget(self) -> None:
        """Let go of the tensors of the capture."""
        self.static = []
        self.tensors = []
        self.weights = []
        self._copied = []

    def given(self, args: Sequence[Any]) -> Any:
        """The tensors that take the inputs' place in a later call with `args`; None if those lie otherwise."""
        if self.identity:
            return args
        if self.moved(args):
            return None
        found = []
        for i in self.places:
            arg = args[i]
            if i in self.flat:
                if arg.stride() != self.flat[i][1]:
                    return None
                arg = _span(arg.detach())
            found.append(arg)
        return found

    def moved(self, args: Sequence[Any]) -> bool:
        """Whether one of the fixed arguments lies elsewhere than at the capture."""
        return any(args[i].data_ptr() != address for i, address in self.addresses)

    def owner(self, tensor: torch.Tensor) -> int | None:
        """The place of the argument that owns the memory of `tensor`, a result of the captured graph; None if none."""
        if tensor.numel() == 0 or tensor._is_zerotensor():
            return None
        return self._owners.get(tensor.untyped_storage().data_ptr())


def _span(tensor: torch.Tensor) -> torch.Tensor:
    """The memory from the first to the last element of `tensor`, as a tensor of one dimension."""
    length = 1 + sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True)) if tensor.numel() else 0
    return tensor.as_strided((length,), (1,), tensor.storage_offset())


class Captured:
    """A captured graph that later calls run, with any arguments of the same metadata."""

    def __init__(
        self, graph: _C.CapturedGraph, inputs: Inputs, outputs: Iterable[Any], constants: frozenset[int]
    ) -> None:
        self.graph = graph
        self.inputs = inputs
        self._fresh: list[torch.Tensor] = []
        self._positions: dict[int, int] = {}  # address of a storage: where the first result in it is in `_fresh`
        constants |= inputs.fixed_storages
        results = [self._result(value, constants) for value in outputs]
        graph.mark_user_outputs(self._fresh, transient=True)
        # The rest, with memory of its own, was never written by an operator: uninitialised tensors.
        idle = {tensor.data_ptr() for tensor in graph.outputs()}
        renewed = {k: _empty(t) for k, t in enumerate(self._fresh) if t.data_ptr() in idle}
        graph.clear_inputs()
        inputs.forget()
        self._run = graph.run
        self._renewed = renewed
        # In most graphs each result is the next output, and there is nothing to do.
        self._results = None if results == list(range(len(self._fresh))) and not renewed else results
        self._fresh = []

    def _result(self, value: Any, constants: frozenset[int]) -> int | Output:
        """How to make a result: which output it is, or a function of the arguments and outputs."""
        if not isinstance(value, torch.Tensor) or value._is_zerotensor():  # zeros that have no memory
            return _constant(value)
        if value.numel() == 0:
            return _empty(value)
        place = self.inputs.owner(value)
        if place is not None:
            view = self.inputs.view_of(place, value)
            return lambda args, outputs: view(args)
        address = value.untyped_storage().data_ptr()
        if value.device.type != "hpu" or address in constants:
            return _constant(value)
        position = self._positions.setdefault(address, len(self._fresh))
        if position == len(self._fresh):
            self._fresh.append(value)
            return position
        first = self._fresh[position]
        if value is first:
            return position
        size, stride, offset = value.size(), value.stride(), value.storage_offset()
        if value.dtype == first.dtype:
            # A view, so that autograd notices a write to one of them in the other.
            bits = _bits(value, first)
            return lambda args, outputs: bits(outputs[position].as_strided(size, stride, offset))
        self._fresh.append(value)
        return len(self._fresh) - 1

    def __call__(self, args: Sequence[Any]) -> Sequence[Any] | None:
        """The results for `args`, by one command for the device; None if the arguments lie in memory in another way."""
        given = self.inputs.given(args)
        if given is None:
            return None
        outputs = self._run(given)
        if self._results is None:
            return outputs
        for k, make in self._renewed.items():
            outputs[k] = make(args, outputs)
        return [outputs[result] if isinstance(result, int) else result(args, outputs) for result in self._results]


def _constant(value: Any) -> Output:
    return lambda args, outputs: value


def _empty(like: torch.Tensor) -> Output:
    size, stride, dtype, device = like.size(), like.stride(), like.dtype, like.device
    return lambda args, outputs: torch.empty_strided(size, stride, dtype=dtype, device=device)
