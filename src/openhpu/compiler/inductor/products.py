"""Matrix products of recipes, which the core computes where its rule says so (csrc/run/Products).

Inductor's wrapper calls PyTorch's kernel of a product. Here it first asks the core. Its rule is that of eager mode, so
that both have the same bits. In a process without the core PyTorch's kernel runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

# The pointer is set by the core (csrc/recipes/Recipe) when it loads the library.
DECLARATION = """
using OpenhpuProduct = bool (*)(AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, double, double);
extern "C" { __attribute__((visibility("default"))) OpenhpuProduct openhpu_product = nullptr; }
[[maybe_unused]] static bool openhpu_computes(AtenTensorHandle out, AtenTensorHandle a, AtenTensorHandle b) {
  return openhpu_product && openhpu_product(out, nullptr, a, b, 0, 1);
}
[[maybe_unused]] static bool openhpu_computes(
    AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle a, AtenTensorHandle b, double beta, double alpha) {
  return openhpu_product && openhpu_product(out, self, a, b, beta, alpha);
}
"""

_KERNELS = frozenset(f"aoti_torch_cpu_{name}_out" for name in ("mm", "addmm", "bmm", "baddbmm"))


@contextlib.contextmanager
def asked_for() -> Iterator[None]:
    """While it lasts, Inductor's wrappers ask the core for products."""
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

    original = CppWrapperCpu.generate_c_shim_extern_kernel_call

    def generate_c_shim_extern_kernel_call(self: Any, kernel: str, args: list[str], *rest: Any, **more: Any) -> None:
        if kernel in _KERNELS:
            self.writeline(f"if (!openhpu_computes({', '.join(args)}))")
        original(self, kernel, args, *rest, **more)

    with mock.patch.object(CppWrapperCpu, "generate_c_shim_extern_kernel_call", generate_c_shim_extern_kernel_call):
        yield
