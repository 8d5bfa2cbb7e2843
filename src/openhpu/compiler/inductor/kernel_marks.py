"""Recipes whose kernels a trace can show: the code calls a function before and after each, if one is set.

A recipe is one command of the device. To measure its kernels, each is marked at its call. Without a trace a mark is one
load and one branch.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from openhpu.compiler.inductor import products

# The pointer is set by the core (csrc/recipes/Recipe) while a trace is recorded.
DECLARATION = """
extern "C" { __attribute__((visibility("default"))) void (*openhpu_mark_kernel)(const char*) = nullptr; }
#define OPENHPU_MARK(name) if (openhpu_mark_kernel) openhpu_mark_kernel(name)
"""


@contextlib.contextmanager
def marked() -> Iterator[None]:
    """While it lasts, Inductor's wrappers mark the kernels that they call."""
    from torch._inductor.codegen.cpp import KernelGroup
    from torch._inductor.codegen.cpp_template_kernel import CppTemplateKernel
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
    from torch._inductor.virtualized import V

    external = CppWrapperCpu.generate_c_shim_extern_kernel_call
    looked_up = CppWrapperCpu.generate_fallback_kernel_with_runtime_lookup_aot
    generated, template = KernelGroup.call_kernel, CppTemplateKernel.call_kernel

    def call_external(self: Any, kernel: str, args: list[str], *rest: Any, **more: Any) -> None:
        def call() -> None:
            products.ask(self, kernel, args)
            external(self, kernel, args, *rest, **more)

        _around(self, kernel.replace("aoti_torch_cpu_", "aten::"), call)

    # An operator without a C function of its own, which the runtime of the recipe looks up.
    def call_looked_up(self: Any, op_overload: Any, *args: Any) -> None:
        _around(self, op_overload.name(), lambda: looked_up(self, op_overload, *args))

    def call_kernel(self: Any, wrapper: Any, kernel_name: str) -> None:
        _around(wrapper, kernel_name, lambda: generated(self, wrapper, kernel_name))

    def call_template_kernel(self: Any, name: str, *args: Any, **kwargs: Any) -> None:
        _around(V.graph.wrapper_code, name, lambda: template(self, name, *args, **kwargs))

    with (
        mock.patch.object(CppWrapperCpu, "generate_fallback_kernel_with_runtime_lookup_aot", call_looked_up),
        mock.patch.object(CppWrapperCpu, "generate_c_shim_extern_kernel_call", call_external),
        mock.patch.object(KernelGroup, "call_kernel", call_kernel),
        mock.patch.object(CppTemplateKernel, "call_kernel", call_template_kernel),
    ):
        yield


def _around(wrapper: Any, name: str, call: Callable[[], None]) -> None:
    # No scope: later code may use the variables of the call.
    wrapper.writeline(f'OPENHPU_MARK("{name}");')
    call()
    wrapper.writeline("OPENHPU_MARK(nullptr);")
