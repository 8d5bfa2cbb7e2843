"""Matrix products of recipes, which the core computes where its rule says so (csrc/run/Products).

Inductor's wrapper calls PyTorch's kernel of a product. Here it first asks the core. Its rule is that of eager mode, so
that both have the same bits. In a process without the core PyTorch's kernel runs.
"""

from typing import Any

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


def ask(wrapper: Any, kernel: str, args: list[str]) -> None:
    """Before the line of a call of PyTorch's: the condition that the core does not compute the product."""
    if kernel in _KERNELS:
        wrapper.writeline(f"if (!openhpu_computes({', '.join(args)}))")
