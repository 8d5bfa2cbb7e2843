"""Kernels of users in recipes (`program.user_kernels`), which the core runs.

The wrapper calls a function pointer, once for each call of a kernel, with its operands and params.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch

from openhpu.compiler.program import user_kernels

# The pointer is set by the core (csrc/recipes/Recipe) when it loads the library.
DECLARATION = """
using OpenhpuUserKernel = void (*)(
    const char*, void**, const AtenTensorHandle*, size_t, const AtenTensorHandle*, size_t, const int64_t*,
    size_t);
extern "C" { __attribute__((visibility("default"))) OpenhpuUserKernel openhpu_user_kernel = nullptr; }
[[maybe_unused]] static void openhpu_call_user_kernel(
    const char* op, void** known, std::initializer_list<AtenTensorHandle> inputs,
    std::initializer_list<AtenTensorHandle> outputs, std::initializer_list<int64_t> words, size_t params) {
  if (!openhpu_user_kernel) throw std::runtime_error("user kernels need OpenHPU's core");
  openhpu_user_kernel(
      op, known, inputs.begin(), inputs.size(), outputs.begin(), outputs.size(), words.begin(), params);
}
"""


_CPU = torch.device("cpu")


@functools.cache
def _node() -> type[Any]:
    """The class of a call in Inductor's graph. Inductor is imported here, since few processes need it."""
    from torch._inductor import ir
    from torch._inductor.virtualized import V
    from torch.utils._ordered_set import OrderedSet

    class UserKernel(ir.ExternKernel):
        """A call that fills `outputs`, which are buffers already."""

        def __init__(
            self, op: str, inputs: Sequence[Any], outputs: Sequence[Any], words: Sequence[Any], params: int
        ) -> None:
            boxes = [None if t is None else self.realize_input(self.require_contiguous(t)) for t in inputs]
            tensors = [t for t in boxes if t is not None]
            super().__init__(None, ir.NoneLayout(device=_CPU), self.unwrap_storage([*tensors, *outputs]), tuple(words))
            self.what = (op, [t is not None for t in boxes], params)
            self.mutation_outputs = [ir.MutationOutput(ir.NoneLayout(device=_CPU), box, self) for box in outputs]
            V.graph.register_operation(self)

        def get_outputs(self) -> list[Any]:
            return list(self.mutation_outputs)

        def get_device(self) -> torch.device:
            return _CPU

        def get_unbacked_symbol_defs(self) -> Any:
            return OrderedSet()

        def has_side_effects(self) -> bool:
            return True

        def codegen(self, wrapper: Any) -> None:
            op, present, params = self.what
            tensors: Any = self.inputs
            handles = [t.codegen_reference() for t in tensors]
            inputs = [handles.pop(0) if there else "nullptr" for there in present]
            words = [f"(int64_t)({V.graph.sizevars.simplify(w)})" for w in self.constant_args]
            name = wrapper.next_kernel_suffix()
            wrapper.writeline(f"static void* openhpu_op_{name} = nullptr;")
            wrapper.writeline(f'OPENHPU_MARK("{op}");')
            wrapper.writeline(
                f'openhpu_call_user_kernel("{op}", &openhpu_op_{name}, {{{", ".join(inputs)}}}, '
                f"{{{', '.join(handles)}}}, {{{', '.join(words)}}}, {params});"
            )
            wrapper.writeline("OPENHPU_MARK(nullptr);")

    return UserKernel


@functools.cache
def register_lowering() -> None:
    """Register what the operator means for Inductor, once."""
    from torch._inductor.lowering import clone, empty, register_lowering as register

    @register(torch.ops.openhpu_compiler.user_kernel.default, type_promotion_kind=None)
    def call(op: str, inputs: Any, starts: Any, sizes: Any, layout: Sequence[int], words: Sequence[Any]) -> Any:
        outputs, given = [], iter(starts)
        for result in user_kernels.results(sizes, layout):
            if result.written < 0:
                output = empty(result.sizes, dtype=result.dtype, device=_CPU)
            else:
                output = clone(next(given), memory_format=torch.contiguous_format)
            output.realize()
            outputs.append(output)
        _node()(op, inputs, outputs, words, layout[0])
        return outputs
