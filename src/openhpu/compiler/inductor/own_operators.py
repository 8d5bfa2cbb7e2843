"""The meaning of the compiler's own operators for Inductor."""

import functools
from collections.abc import Sequence
from typing import Any

import torch

from openhpu.compiler.inductor import user_kernels
from openhpu.compiler.program import out_of_range, stored  # noqa: F401  # they define the operators


@functools.cache
def register_lowerings() -> None:
    """Register it, once."""
    from torch._inductor import ir
    from torch._inductor.lowering import clone, full_like, register_lowering as register, where
    from torch._inductor.virtualized import V, ops

    user_kernels.register_lowering()

    @register(torch.ops.openhpu_compiler.existing.default, type_promotion_kind=None)
    def existing(index: Any, missing: Any) -> Any:
        return where(missing, full_like(index, out_of_range.ABSENT), index)

    @register(torch.ops.openhpu_compiler.scatter.default, type_promotion_kind=None)
    def scatter(self: Any, dim: int, index: Any, src: Any) -> Any:
        result = clone(self)
        result.realize()
        size = result.get_size()[dim]
        load = index.make_loader()
        value = src.make_loader()

        def place(at: Sequence[Any]) -> list[Any]:
            where_to = ops.indirect_indexing(load(at), size, check=False, wrap_neg=False)
            return [*at[:dim], where_to, *at[dim + 1 :]]

        data = ir.Scatter(
            device=result.get_device(),
            dtype=result.get_dtype(),
            inner_fn=value,
            ranges=index.get_size(),
            output_indexer=place,  # type: ignore[arg-type]
        )
        buffer = ir.ComputedBuffer(name=None, layout=ir.MutationLayoutSHOULDREMOVE(result), data=data)
        buffer.name = V.graph.register_buffer(buffer)
        V.graph.register_operation(buffer)
        return result

    @register(torch.ops.openhpu_compiler.stored.default, type_promotion_kind=None)
    def keep(x: Any) -> Any:
        x.realize()
        return x
