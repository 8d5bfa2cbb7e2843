"""The operators of this folder: silu, product, row_softmax and rms_norm with their gradients, for float32 on hpu.

`silu_and_mul` is for bfloat16, without a gradient. Its kernel has a description in the place of glue code.

`build` makes the library of kernels and the library of operators, and has to run before the first use of a device.
"""

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import cpp_extension

from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir
from openhpu_tpc.building import build as build_library
from openhpu_tpc.compiling import Options

HERE = Path(__file__).parent
OPS = torch.ops.tpc_example


# What `openhpu tpc build` gets for each library.
LIBRARIES = {
    "kernels": [*map(str, sorted((HERE / "kernels").glob("*.c"))), str(HERE / "glue.cpp")],
    "layer": [str(HERE / "described" / "silu_and_mul.toml")],
}


def build_kernels(which: str, target: Path) -> None:
    """`openhpu tpc build ... -o TARGET` of one of LIBRARIES. Raises BuildError."""
    partial = target.with_suffix(f".{os.getpid()}.so")  # another process may have loaded the target
    build_library(LIBRARIES[which], partial, Options())
    partial.rename(target)


def load_operators(folder: Path) -> None:
    """Build the operators in this folder and load them."""
    cpp_extension.load(
        name="tpc_example",
        sources=[str(HERE / "operators.cpp")],
        build_directory=str(folder),
        extra_include_paths=[get_include_dir()],
        extra_ldflags=[f"-L{get_lib_dir()}", "-lhabana_pytorch2_plugin"],
        is_python_module=False,
    )


def build(which: str = "kernels") -> None:
    """Build operators and one of LIBRARIES where PyTorch builds extensions, and make them known to this process."""
    folder = Path(cpp_extension.get_default_build_root()) / "openhpu_tpc_example" / torch.__version__
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"lib{which}.so"
    build_kernels(which, library)
    listed = os.environ.get("GC_KERNEL_PATH")
    os.environ["GC_KERNEL_PATH"] = f"{library}:{listed}" if listed else str(library)
    load_operators(folder)


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return OPS.silu(x)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return OPS.silu_backward(grad, x)  # type: ignore[no-any-return]


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return OPS.product(a, b)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        a, b = ctx.saved_tensors
        return OPS.product(grad, b.t()), OPS.product(a.t(), grad)


class RowSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = OPS.row_softmax(x)
        ctx.save_for_backward(y)
        return y  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(-1, keepdim=True))  # type: ignore[no-any-return]


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        y, inverse = OPS.rms_norm(x, weight, epsilon)
        ctx.save_for_backward(x, weight, inverse)
        return y  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:  # type: ignore[override]
        return *OPS.rms_norm_backward(grad, *ctx.saved_tensors), None


def silu(x: Tensor) -> Tensor:
    """torch.nn.functional.silu of float32, of any sizes but none."""
    return Silu.apply(x.reshape(-1, x.size(-1))).view(x.size())  # type: ignore[no-any-return, no-untyped-call]


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, float32 [..., k] and [k, n]."""
    rows: Tensor = Product.apply(a.reshape(-1, a.size(-1)), b)  # type: ignore[no-untyped-call]
    return rows.view(*a.size()[:-1], b.size(1))


def silu_and_mul(x: Tensor) -> Tensor:
    """silu(gate) * up, bfloat16 [..., 2 * d] with gate in the first half of the last dimension: [..., d]."""
    rows: Tensor = OPS.silu_and_mul(x.reshape(-1, x.size(-1)))
    return rows.view(*x.size()[:-1], rows.size(1))


def row_softmax(x: Tensor) -> Tensor:
    """x.softmax(-1), float32 with at most 16,384 elements in the last dimension."""
    return RowSoftmax.apply(x.reshape(-1, x.size(-1))).view(x.size())  # type: ignore[no-any-return, no-untyped-call]


def rms_norm(x: Tensor, weight: Tensor, epsilon: float = 1e-5) -> Tensor:
    """torch.nn.functional.rms_norm over the last dimension, float32 [..., n] with a weight [n]."""
    rows = x.reshape(-1, x.size(-1))
    return RmsNorm.apply(rows, weight, epsilon).view(x.size())  # type: ignore[no-any-return, no-untyped-call]
