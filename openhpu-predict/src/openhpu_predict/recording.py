"""Records a step: its operators with their sizes, its memory, its reads, and the lines and layers of the script."""

import contextlib
import functools
import math
import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.distributed_c10d import GroupName, _resolve_process_group as resolve_process_group
from torch.nn.modules import module as modules
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    is_traceable_wrapper_subclass_type,
)
from torch.utils._pytree import tree_leaves

import openhpu
from openhpu import _C
from openhpu.interface.gaudi_ops import namespace, registry
from openhpu_predict import kernels, operators, replays
from openhpu_predict.errors import NeedsValuesError
from openhpu_predict.operators import Kind, Product

Site = tuple[str, int]
# Frames of these are not the script's.
_OURS = Path(openhpu.__file__).parent
_LIBRARIES = tuple(
    str(folder) + os.sep
    for folder in (Path(torch.__file__).parent, _OURS, _OURS.with_name("habana_frameworks"), Path(__file__).parent)
)
_STANDARD = str(Path(contextlib.__file__).parent) + os.sep
_C.add_library_folder(str(Path(__file__).parent) + os.sep)
_READS = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero"}
BLOCK = 128  # bytes; the device's allocator rounds each size up to a multiple


@dataclass(slots=True)
class Node:
    """One operator. `reads` and `writes` are bytes by storage."""

    op: str
    kind: Kind
    dtype: torch.dtype
    reads: dict[int, int]
    writes: dict[int, int]
    elements: int  # of the largest operand or result
    products: list[Product]
    access: int  # bytes that lie together in the largest operand; 0: all
    site: Site | None
    layer: str
    backward: bool
    ranks: Collection[int] = (0,)  # of a collective
    cut: str = ""  # why the graph ends after this node: "read" or "step"
    undone: bool = False  # a cast from fp8 that a cast to fp8 undoes: nothing runs, unless others read its result
    cycles: float = 0.0  # of one TPC, from the account of a user's kernel


@dataclass(slots=True)
class Block:
    """A storage on the device. It lives from node `born` (-1: before the first) up to node `died` (None: the end)."""

    bytes: int
    born: int
    category: str = ""  # weights, gradients, optimizer; "": activations
    died: int | None = None


@dataclass
class Recording:
    """The nodes of all recorded steps. `steps` has the number of nodes at the end of each step."""

    nodes: list[Node] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    gradient_bytes: int = 0  # of the parameters
    cards: int = 0  # of the script's own process group; 0: it has none
    graphs_new: int | None = None  # that the device's cache had not seen before; None: nobody counted
    graphs: bool = False  # HPU graphs or modules of torch.compile ran
    real: bool = False  # a real call, since fake tensors have no values
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # what a reader has to know before the numbers

    def last_step(self) -> tuple[int, int]:
        """The first node of the last complete step, and the one after its last."""
        ends = [0, *dict.fromkeys(self.steps)] if self.steps else [0, len(self.nodes)]
        return (ends[-2], ends[-1]) if len(ends) > 1 else (0, len(self.nodes))


class _Call(NamedTuple):
    """A call of an operator, with the tensors among its arguments and its results."""

    func: Any
    args: Any
    kwargs: Any
    operands: list[torch.Tensor]
    outs: list[torch.Tensor]

    def largest(self) -> torch.Tensor:
        return max([*self.operands, *self.outs], key=lambda one: one.numel())

    def bytes_of_a_row(self) -> int:
        """Of the smaller side of a call that takes rows of a tensor."""
        rows = self.outs[0] if self.outs and self.outs[0].dim() > 1 else self.largest()
        return rows.shape[-1] * rows.element_size() if rows.dim() > 1 else rows.element_size()


class _Moved(NamedTuple):
    """Bytes by storage that a call reads and writes, and the elements that it computes."""

    reads: dict[int, int]
    writes: dict[int, int]
    elements: int


def _products(call: _Call, kind: Kind) -> list[Product]:
    if kind is Kind.PRODUCT:
        return operators.product(call.func, call.args, call.outs)
    if kind is Kind.ATTENTION:
        return operators.attention(call.func, call.args, call.kwargs)
    return []


class Recorder(TorchDispatchMode):
    """Records what runs within it. `only`: the type of the device whose work counts; None: every device's.

    `ranks`: how many cards take part in a collective whose process group does not exist.
    """

    def __init__(self, only: str | None, ranks: int = 1) -> None:
        super().__init__()
        self._ranks = range(ranks)
        self.within = False  # an operator of Gaudi's that is recorded as one
        self.ended = False
        self.when_ended: Callable[[], None] | None = None  # called when a module begins after the end
        self._entered = False
        self.recording = Recording()
        self._only = only
        self._ids: dict[int, int] = {}  # storages that are alive
        self._resizable: set[int] = set()  # storages that gave their memory away once
        self._parameters: dict[int, torch.Tensor] = {}
        self._casts: dict[int, tuple[int, float, torch.dtype]] = {}  # from fp8, by storage: node, scale, type
        self._places: dict[int, tuple[Site | None, str]] = {}  # by the sequence number of the autograd node
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._layers: list[torch.nn.Module] = []
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()

    @contextlib.contextmanager
    def watching(self) -> Iterator[Recording]:
        """Record, also names of modules and what optimizers keep."""
        handles = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
            register_optimizer_step_pre_hook(lambda optimizer, *_: self._mark_gradients(optimizer)),
            register_optimizer_step_post_hook(lambda optimizer, *_: self._mark_state(optimizer)),
        ]
        resize = torch.UntypedStorage.resize_

        def resized(storage: torch.UntypedStorage, size: int) -> None:
            resize(storage, size)
            self._resized(storage)

        try:
            with (
                mock.patch.object(torch.UntypedStorage, "resize_", resized),
                _gaudi_operators(self),
                replays.counted(self),
            ):
                self.__enter__()
                self._entered = True
                yield self.recording
        finally:
            self.end()
            for handle in handles:
                handle.remove()
            parameters = list(self._parameters.values())
            self._mark("gradients", [one.grad for one in parameters])
            self.recording.gradient_bytes = sum(_local(one).nbytes for one in parameters if one.requires_grad)
            if dist.is_available() and dist.is_initialized():
                self.recording.cards = dist.get_world_size()

    def forget(self) -> None:
        """Take fake gradients and fake states from real parameters and their optimizers."""
        for one in self._parameters.values():
            if not isinstance(one, FakeTensor) and isinstance(one.grad, FakeTensor):
                one.grad = None
        for optimizer in self._optimizers:
            for one, state in list(optimizer.state.items()):
                if not isinstance(one, FakeTensor) and any(isinstance(x, FakeTensor) for x in tree_leaves(dict(state))):
                    del optimizer.state[one]

    def end(self) -> None:
        """Record no more. Under a dispatch mode of the script's own this one stays, and passes on."""
        self.ended = True
        if self._entered and _get_current_dispatch_mode() is self:
            self._entered = False
            self.__exit__(None, None, None)

    def end_step(self) -> None:
        """What follows is another step."""
        self.recording.steps.append(len(self.recording.nodes))
        self.cut("step")

    def cut(self, why: str) -> None:
        """The graph ends here."""
        if self.recording.nodes and self.recording.nodes[-1].cut != "read":
            self.recording.nodes[-1].cut = why

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(is_traceable_wrapper_subclass_type(one) and not issubclass(one, FakeTensor) for one in types):
            return NotImplemented  # a DTensor calls the operators of its part, and they come here
        if func.namespace == "prim" or self.within or self.ended:
            return func(*args, **kwargs)
        # In inference mode operators come whole: `linear` has not become `mm` yet, and Gaudi's operators have not come
        # to what records each of them once.
        if (
            func.namespace in ("aten", registry.NAMESPACE)
            and func._can_decompose()
            and not operators.shares(func, args)
        ):
            with self:
                found = func.decompose(*args, **kwargs)
            if found is not NotImplemented:
                return found
        return self.call(func, func, args, kwargs)

    def call(self, what: Any, func: torch._ops.OpOverload, args: Any, kwargs: Any) -> Any:
        """Call `what` and record it as the operator `func`."""
        operands = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        before = {self._id(one): one for one in operands if self._counts(one)}
        self.within = what is not func
        try:
            out = what(*args, **kwargs)
        except Exception as error:
            if type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException"):
                where = self._place()[0]
                raise NeedsValuesError(
                    f"{func} at {site_text(where)} needs the values of a tensor, and fake tensors have none; make the "
                    "model outside of fake(), leave the read out, or run the script itself: openhpu predict SCRIPT"
                ) from error
            raise
        finally:
            self.within = False
        outs = [one for one in tree_leaves(out) if isinstance(one, torch.Tensor)]
        self._record(_Call(func, args, kwargs, operands, outs), before)
        return out

    def _record(self, call: _Call, before: dict[int, torch.Tensor]) -> None:
        """Add a node, unless the device does nothing. `before`: the operands by storage."""
        func, args, kwargs, operands, outs = call
        written = [one for one in outs if self._counts(one)]
        if not before and not written:
            return
        place = self._place()
        name = operators.name_of(func)
        kind = operators.kind(func, operands, outs)
        given = operators.into(func, args, kwargs) if kind in (Kind.COLLECTIVE, Kind.COPY) else None
        fresh = [one for one in written if self._id(one, born=True) not in before]
        if name == "cast_to_fp8_v2" and self._undoes(args, outs):
            return
        view = not func._schema.is_mutable and not fresh and bool(outs) and len(written) == len(outs) and given is None
        if view or name in operators.NOTHING:
            return
        results = self._results(call, written)
        moved = self._moved(call, kind, results, before)
        if given is not None:
            moved = moved._replace(reads=self._sizes(given[0]), writes=self._sizes(given[1]))
        if name == "cast_from_fp8" and isinstance(args[1], float):
            self._casts[self._id(outs[0])] = len(self.recording.nodes), args[1], args[0].dtype
        read = name in _READS or (kind is Kind.HOST_COPY and not written)
        self.recording.nodes.append(self._node(call, kind, moved, place, "read" if read else ""))

    def _node(self, call: _Call, kind: Kind, moved: _Moved, place: tuple[Site | None, str], cut: str) -> Node:
        func, args, _, operands, outs = call
        name = operators.name_of(func)
        products, access = _products(call, kind), call.bytes_of_a_row() if kind is Kind.GATHER else 0
        cycles = kernels.cycles(name, operands, outs) if kind is Kind.UNKNOWN and "::" in name else 0.0
        if cycles:
            kind = Kind.KERNEL
        site, layer = place
        return Node(
            op=name,
            kind=kind,
            dtype=_dtype(kind, operands, outs),
            reads=moved.reads,
            writes=moved.writes,
            elements=moved.elements,
            products=products,
            access=access,
            site=site,
            layer=layer,
            backward=torch._C._current_autograd_node() is not None,
            ranks=self._members(args) if kind is Kind.COLLECTIVE else (0,),
            cut=cut,
            cycles=cycles,
        )

    def _results(self, call: _Call, written: list[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors that a call computes. `written`: its results on the device."""
        if written:
            return written
        counted = [one for one in call.operands if self._counts(one)]
        # One that returns nothing changes a list of tensors in place.
        return counted if call.func._schema.is_mutable and not call.outs else counted[:1]

    def _moved(self, call: _Call, kind: Kind, results: list[torch.Tensor], before: dict[int, torch.Tensor]) -> _Moved:
        name = operators.name_of(call.func)
        many = name.startswith(("_foreach_", "_fused_"))
        elements = sum(one.numel() for one in results) if many else call.largest().numel()
        reads = {key: operators.distinct_bytes(one) for key, one in before.items()}
        writes = {self._id(one): operators.distinct_bytes(one) for one in results}
        if name == operators.EXPERTS:
            experts = operators.experts(call.func, call.args)  # whose weights may be views of one tensor
            sizes = self._sizes(experts.weights)
            reads |= {key: math.ceil(size * experts.share) for key, size in sizes.items()}
        if kind is Kind.GATHER:
            _touch_rows(name, call.args, call.operands, call.outs, reads, writes, self._id)
            elements = max(writes.values(), default=0) // max(results[0].element_size(), 1)
        return _Moved(reads, writes, elements)

    def _undoes(self, args: Any, outs: list[torch.Tensor]) -> bool:
        """Whether a cast to fp8 gives back what a cast from fp8 was given. Its readers then read fp8 at once."""
        cast = self._casts.get(self._id(args[0]))
        scale = args[1] if len(args) > 1 else None
        if cast is None or not isinstance(scale, float) or scale * cast[1] != 1.0 or outs[0].dtype is not cast[2]:
            return False
        self.recording.nodes[cast[0]].undone = True
        return True

    def _sizes(self, tensors: list[torch.Tensor]) -> dict[int, int]:
        """Bytes by storage."""
        found: Counter[int] = Counter()
        for one in filter(self._counts, tensors):
            found[self._id(one)] += one.nbytes
        return dict(found)

    def _members(self, args: Any) -> Collection[int]:
        """The ranks of a collective's process group."""
        for one in args:
            if isinstance(one, torch.ScriptObject) and "ProcessGroup" in str(one._type()):
                return tuple(dist.get_process_group_ranks(dist.ProcessGroup.unbox(one)))
            if isinstance(one, str) and dist.is_initialized():
                with contextlib.suppress(RuntimeError):  # another argument, as the name of a reduction
                    return tuple(dist.get_process_group_ranks(resolve_process_group(GroupName(one))))
        return self._ranks

    def _counts(self, tensor: torch.Tensor) -> bool:
        """Whether it is on the device. A 0-dim CPU tensor is a number of the host: an optimizer's step."""
        here = tensor.device.type
        return here == self._only if self._only else here != "cpu" or tensor.dim() > 0

    def _id(self, tensor: torch.Tensor, born: bool = False) -> int:
        """The number of a tensor's storage. A new one is a block of memory."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        known = self._ids.get(key)
        if known is None:
            known = self._born(storage, len(self.recording.nodes) if born else -1)
        if isinstance(tensor, torch.nn.Parameter):
            self._parameters[known] = tensor
            self.recording.blocks[known].category = "weights"
        return known

    def _born(self, storage: torch.UntypedStorage, when: int) -> int:
        key = storage._cdata
        number = len(self.recording.blocks)
        self._ids[key] = number
        self.recording.blocks.append(Block(-(-max(storage.nbytes(), 1) // BLOCK) * BLOCK, when))
        weakref.finalize(storage, self._died, key, number).atexit = False
        return number

    def number(self, tensor: torch.Tensor, number: int | None = None) -> int:
        """The number of a tensor's storage; `number` gives it that of another one."""
        if number is not None:
            storage = tensor.untyped_storage()
            self._ids[storage._cdata] = number
            weakref.finalize(storage, self._ids.pop, storage._cdata, None).atexit = False
            return number
        return self._id(tensor, born=True)

    def takes(self, tensor: torch.Tensor, number: int) -> None:
        """The tensor's storage is the block `number`, and dies with it."""
        storage = tensor.untyped_storage()
        self._ids[storage._cdata] = number
        weakref.finalize(storage, self._died, storage._cdata, number).atexit = False

    def _died(self, key: int, number: int) -> None:
        if self._ids.get(key) == number:
            del self._ids[key]
        if self.recording.blocks[number].died is None:
            self.recording.blocks[number].died = len(self.recording.nodes)

    def _resized(self, storage: torch.UntypedStorage) -> None:
        """A storage that gives its memory away, or takes some, is another block."""
        key = storage._cdata
        if (known := self._ids.get(key)) is not None:
            self._died(key, known)
            self._resizable.add(key)
        if key in self._resizable and storage.nbytes():
            self._born(storage, len(self.recording.nodes))

    def _mark(self, category: str, tensors: list[Any]) -> None:
        for one in tensors:
            if not isinstance(one, torch.Tensor):
                continue
            if (known := self._ids.get(_local(one).untyped_storage()._cdata)) is not None:
                self.recording.blocks[known].category = category

    def _mark_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        self._mark("gradients", [one.grad for group in optimizer.param_groups for one in group["params"]])

    def _mark_state(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizers.add(optimizer)
        self._mark("optimizer", [one for state in optimizer.state.values() for one in tree_leaves(dict(state))])

    def _enter(self, module: torch.nn.Module, _inputs: Any) -> None:
        if self.ended:
            if self.when_ended is not None:
                self.when_ended()
            return
        if not self._layers and module not in self._names:
            inner = getattr(module, "_orig_mod", module)  # of torch.compile
            self.recording.graphs |= inner is not module
            root = type(inner).__name__
            for name, one in inner.named_modules():
                self._names[one] = f"{root}.{name}" if name else root
            for parameter in module.parameters():
                if (part := _local(parameter)) is not parameter and self._counts(part):  # of a DTensor
                    self._parameters[self._id(part)] = parameter
                    self._mark("weights", [part])
        self._layers.append(module)

    def _leave(self, module: torch.nn.Module, _inputs: Any, _output: Any) -> None:
        while self._layers and self._layers.pop() is not module:
            pass

    def _place(self) -> tuple[Site | None, str]:
        """The line and the layer. A backward operator has those of its forward one."""
        node = torch._C._current_autograd_node()
        if node is not None and (found := self._places.get(node._sequence_nr())) is not None:
            return found
        frame = sys._getframe(2)
        while frame is not None and _of_library(frame.f_code.co_filename):
            frame = frame.f_back  # type: ignore[assignment]
        site = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else None
        layer = self._layers[-1] if self._layers else None
        place = site, self._names.get(layer, type(layer).__name__) if layer is not None else ""
        if node is None and torch.is_grad_enabled():
            self._places.setdefault(torch.autograd._get_sequence_nr() - 1, place)
        return place


@torch.no_grad()
def _local(tensor: torch.Tensor) -> torch.Tensor:
    """This card's part of a DTensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor  # type: ignore[no-any-return]


@contextlib.contextmanager
def _gaudi_operators(recorder: Recorder) -> Iterator[None]:
    """Record those of `torch.ops.hpu` that have a cost as one operator, though here they consist of several.

    The dispatcher calls them through the recorder meanwhile, also in a backward pass and in inference mode.
    """
    namespace.define()
    library = torch.library.Library(registry.NAMESPACE, "FRAGMENT")

    def seen(function: Any, overload: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return (
                function(*args, **kwargs)
                if recorder.within or recorder.ended
                else recorder.call(function, overload, args, kwargs)
            )

        return call

    try:
        for row in registry.rows():
            name, _, overload = row.name.partition(".")
            found = getattr(getattr(torch.ops.hpu, name), overload or "default")
            if operators.kind(found, (), ()) is not Kind.UNKNOWN:
                function = registry.implementation(row)
                if name == operators.EXPERTS and len(found._schema.returns) == 1:
                    function = operators.one_expert(function, found)
                call = seen(function, found)
                library.impl(row.name, call, "CompositeImplicitAutograd", allow_override=True)
        with torch.autograd.set_multithreading_enabled(False):  # one call at a time
            yield
    finally:
        library._destroy()


@functools.cache
def _of_library(file: str) -> bool:
    standard = file.startswith(_STANDARD) and "site-packages" not in file
    return standard or file.startswith(("<", *_LIBRARIES))


def site_text(site: Site | None) -> str:
    return f"{site[0]}:{site[1]}" if site else "an unknown line"


def _dtype(kind: Kind, operands: list[torch.Tensor], outs: list[torch.Tensor]) -> torch.dtype:
    """That of the work: of a product its operands'."""
    sides = operands if kind in (Kind.PRODUCT, Kind.ATTENTION) else [*outs, *operands]
    return next((one.dtype for one in sides if one.is_floating_point()), (sides or operands)[0].dtype)


def _touch_rows(name: str, args: Any, operands: Any, outs: Any, reads: Any, writes: Any, number: Any) -> None:
    """A gather reads as much of its table as it returns; a scatter writes as much as it is given."""
    table = args[0] if isinstance(args[0], torch.Tensor) else operands[0]
    if name in ("embedding", "gather", "index_select", "index", "_unsafe_index"):
        reads[number(table)] = min(table.nbytes, sum(one.nbytes for one in outs))
    elif name.endswith("_"):
        given = max((one.nbytes for one in operands[1:] if one.dtype == table.dtype), default=table.nbytes)
        reads[number(table)] = writes[number(table)] = min(given, table.nbytes)
