"""User operators (csrc/call/UserOperator) in a recipe.

In a recorded graph each of them is a call of `openhpu::user_kernel`. csrc/run/UserKernel.h describes its arguments. It
is traced as `openhpu_compiler::user_kernel`, a function without writes: `starts` are the contents of the operands that
are written, and the results are all of the kernel's. Inductor calls the kernel through a function pointer
(`inductor.user_kernels`).

The compile process does not load the core, which registers the first operator, nor the user's library.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from openhpu.compiler.program import stored  # noqa: F401  # it defines the namespace

OP = "openhpu::user_kernel"
_library = torch.library.Library("openhpu", "FRAGMENT")
if not hasattr(torch.ops.openhpu, "user_kernel"):
    _library.define(
        "user_kernel(str op, Tensor?[] inputs, Tensor(a!)[] written, int[] sizes, int[] layout, Scalar[] words) -> "
        "Tensor[]"
    )
_compiler = torch.library.Library("openhpu_compiler", "FRAGMENT")
_compiler.define(
    "user_kernel(str op, Tensor?[] inputs, Tensor[] starts, SymInt[] sizes, int[] layout, SymInt[] words) -> Tensor[]",
    # So that Inductor does not run it where its inputs are constants: the compile process has no kernels of users.
    tags=(torch.Tag.nondeterministic_seeded,),
)
# It may do more than compute: it is called as often as in eager mode.
torch.fx.node.has_side_effect(torch.ops.openhpu_compiler.user_kernel.default)


class Result:
    """One result of a call: its dtype, its sizes, and which of the written operands it is (-1: a new tensor)."""

    def __init__(self, dtype: torch.dtype, sizes: Sequence[Any], written: int) -> None:
        self.dtype, self.sizes, self.written = dtype, sizes, written


def results(sizes: Sequence[Any], layout: Sequence[int]) -> list[Result]:
    """The results that the arguments of these names describe."""
    from openhpu.compiler.program import description

    found, begin = [], 0
    for dtype, dim, written in zip(layout[1::3], layout[2::3], layout[3::3], strict=True):
        found.append(Result(description.dtype_of(dtype), sizes[begin : begin + dim], written))
        begin += dim
    return found


def _meta(op: str, inputs: Any, starts: Any, sizes: Sequence[Any], layout: Sequence[int], words: Any) -> list[Tensor]:
    return [torch.empty(result.sizes, dtype=result.dtype, device="meta") for result in results(sizes, layout)]


_compiler.impl("user_kernel", _meta, "Meta")


def _call(
    op: str,
    inputs: Sequence[Tensor | None],
    written: Sequence[Tensor],
    sizes: Sequence[Any],
    layout: Sequence[int],
    words: Sequence[Any],
) -> list[Tensor]:
    given = results(sizes, layout)
    starts = [written[result.written] for result in given if result.written >= 0]
    new = torch.ops.openhpu_compiler.user_kernel.default(op, inputs, starts, sizes, layout, words)
    for value, result in zip(new, given, strict=True):
        if result.written >= 0:
            written[result.written].copy_(value)
    return [written[r.written] if r.written >= 0 else value for value, r in zip(new, given, strict=True)]


FUNCTIONS = {OP: _call}
