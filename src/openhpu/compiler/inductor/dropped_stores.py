"""Stores of generated code at indices from a tensor: negative indices are left out, and sums run in order.

An index that comes out of a tensor is a variable of its own (`tmp5`) in Inductor's expression of an address. The value
that out_of_range calls absent is such a variable below zero. So a condition on these variables decides, before an
address is computed.

Inductor adds at such places from several threads with atomic additions. The order of a sum, and its last bits, then
differ from run to run. Here a loop that adds runs on one thread, in the order of the CPU kernel, and needs no atomic
additions.
"""

import contextlib
import functools
import re
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """While it lasts, Inductor's stores to places that tensors name look for negative indices and add in order."""
    from torch._inductor.codegen.cpp import CppKernel, CppVecKernel, OuterLoopFusedKernel, ParallelDepth

    scalar, vector = CppKernel.store, CppVecKernel.store

    def in_order(plain: Any, guarded: Any) -> Any:
        def wrapped(self: Any, name: str, index: Any, value: Any, mode: Any = None) -> None:
            store = _Store(self, name, index, value, mode)
            variables = _indirect(self, index)
            adding: Any = contextlib.nullcontext()
            if mode is not None:
                _accumulating.add(self)
                adding = mock.patch.object(self, "num_threads", 1)
            with adding:
                if variables:
                    guarded(store, variables)
                else:
                    plain(*store)

        return wrapped

    def on_one_thread(decide: Any) -> Any:
        def wrapped(self: Any, most: Any, threads: int) -> Any:
            if _accumulates(self):
                return ParallelDepth(parallel_depth=0, start_depth=most.start_depth)
            return decide(self, most, threads)

        return wrapped

    depth, fused_depth = CppKernel.decide_parallel_depth, OuterLoopFusedKernel.decide_parallel_depth
    with (
        mock.patch.object(CppKernel, "store", in_order(scalar, functools.partial(_store_if, scalar))),
        mock.patch.object(CppVecKernel, "store", in_order(vector, _store_lanes_if)),
        mock.patch.object(CppKernel, "decide_parallel_depth", on_one_thread(depth)),
        mock.patch.object(OuterLoopFusedKernel, "decide_parallel_depth", on_one_thread(fused_depth)),
    ):
        yield


class _Store(NamedTuple):
    """A call of Inductor's `store`: a kernel writes `value` to the address `index` of the buffer `name`. With a `mode`
    it adds."""

    kernel: Any
    name: str
    index: Any
    value: Any
    mode: Any


def _store_if(scalar: Any, store: _Store, variables: list[Any]) -> None:
    """`scalar`, a kernel's `store`, where no index is negative."""
    from torch._inductor.codegen.common import DeferredLine, IndentedBuffer

    with mock.patch.object(store.kernel, "stores", IndentedBuffer()) as stores:
        scalar(*store)
    condition = _condition(map(str, variables))
    for line in stores._lines:
        store.kernel.stores.writeline(DeferredLine(store.name, f"if ({condition}) {line.line}"))  # type: ignore[union-attr]


def _store_lanes_if(store: _Store, variables: list[Any]) -> None:
    """The same of a vector; where lanes have addresses of their own, each has its own condition."""
    from torch._inductor.codegen.common import DeferredLine, IndentedBuffer
    from torch._inductor.virtualized import V

    kernel, adds = store.kernel, store.mode is not None
    value = store.value if store.value.is_vec else kernel.broadcast(store.value)
    variable, dtype = kernel.args.output(store.name), V.graph.get_dtype(store.name)
    index = kernel.rename_indexing(store.index)
    contiguous = kernel._try_get_const_stride(index, kernel.itervars[kernel.tiling_idx]) == 1
    code = IndentedBuffer()
    if contiguous:
        code.writeline(f"if ({_condition(map(str, variables))})")
        code.writeline("{")
        code.splice(kernel._get_store_line(value, variable, index, dtype, accu_store=adds))
        code.writeline("}")
    else:
        lanes = IndentedBuffer()
        kernel._load_or_store_non_contiguous(variable, index, dtype, buffer=lanes, store_value=value, accu_store=adds)
        fixed = [str(each) for each in variables if not each.is_vec]
        for line in lanes._lines:
            code.writeline(_guarded_lane(str(line), variable, fixed))
    kernel.stores.splice(code.map(lambda line: DeferredLine(store.name, line)))


# Kernels with a store that adds.
_accumulating: weakref.WeakSet[Any] = weakref.WeakSet()


def _accumulates(kernel: Any) -> bool:
    """Whether a kernel, one of the forms of its loop, or a loop inside of it adds."""
    nested = [*getattr(kernel, "kernels", ()), *(loops.get_kernel() for loops in getattr(kernel, "inner", ()))]
    return kernel in _accumulating or any(map(_accumulates, nested))


def _indirect(kernel: Any, index: Any) -> list[Any]:
    """The variables of an address that come out of tensors."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    symbols = sorted(kernel.rename_indexing(index).free_symbols, key=str)
    return [kernel.cse.varname_map[each.name] for each in symbols if symbol_is_type(each, SymT.TMP)]


def _condition(variables: Any) -> str:
    return " && ".join(f"{each} >= 0" for each in variables)


def _guarded_lane(line: str, variable: str, fixed: list[str]) -> str:
    """A line of the loop over lanes: that which stores gets a condition on its indices."""
    found = re.match(rf"(\s*)({re.escape(variable)}\[(.*)\]) (\+?=) (\w+\[\w+_inner\]);$", line)
    if not found:
        return line
    indent, place, address, operation, value = found.groups()
    lanes = dict.fromkeys(re.findall(r"\w+\[\w+_inner\]", address))
    return f"{indent}if ({_condition([*fixed, *lanes])}) {place} {operation} {value};"
