"""Builds each kernel, runs it in parts and with checks, and compares its results with PyTorch's."""

import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional

from openhpu_tpc import building
from openhpu_tpc.compiling import Options
from openhpu_tpc.errors import BuildError
from openhpu_tpc.loading import KernelError, Library

HERE = Path(__file__).parent
Tensors = list[torch.Tensor]


class Style(NamedTuple):
    """Operands of a kernel, what PyTorch computes of them, the node's parameters, and how near the results are."""

    inputs: Callable[[], Tensors]
    reference: Callable[..., Tensors]
    parameters: bytes = b""
    tolerance: float = 1e-5


def _layer_norm(x: torch.Tensor, beta: torch.Tensor, gamma: torch.Tensor) -> Tensors:
    wide = x.float()
    mean, variance = wide.mean(-1, keepdim=True), wide.var(-1, keepdim=True, correction=0)
    istd = torch.rsqrt(variance + 1e-5)
    return [((wide - mean) * istd * gamma.float() + beta.float()).bfloat16(), mean, istd]


def _rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Tensors:
    low, high = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return [torch.cat([low * cos - high * sin, high * cos + low * sin], -1)]


def _top(x: torch.Tensor) -> Tensors:
    values, places = torch.sort(x, descending=True, stable=True)
    return [values[:, :5], places[:, :5].int()]


def _scattered(index: torch.Tensor, updates: torch.Tensor) -> Tensors:
    rows = torch.zeros(6, updates.shape[1])
    known = (index >= -6) & (index < 6)
    return [rows.index_add(0, index[known].long() % 6, updates[known])]


def _quantized(x: torch.Tensor) -> Tensors:
    scale = x.abs().amax(-1, keepdim=True) * (1.0 / 127.0)
    inverse = torch.where(scale == 0, 0.0, 1.0 / scale)
    return [(x * inverse).round().clamp(-128, 127).to(torch.int8), scale]


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Tensors:
    return [functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.25)]


STYLES = {
    "softmax_online": Style(lambda: [torch.randn(5, 200) * 20], lambda x: [x.softmax(-1)]),
    "layernorm_bf16": Style(
        lambda: [t.bfloat16() for t in (torch.randn(4, 300) * 3 + 1, torch.randn(300), torch.randn(300))],
        _layer_norm,
        tolerance=2e-2,
    ),
    "rope_f32": Style(lambda: [torch.randn(3, 2, 160), torch.randn(3, 80), torch.randn(3, 80)], _rope),
    "gelu_0": Style(lambda: [torch.randn(3, 100) * 3], lambda x: [functional.gelu(x)]),
    "gelu_1": Style(lambda: [torch.randn(3, 100) * 3], lambda x: [functional.gelu(x, approximate="tanh")]),
    "gelu_2": Style(lambda: [torch.randn(3, 100) * 3], lambda x: [x * torch.sigmoid(1.702 * x)]),
    "gelu_3": Style(lambda: [torch.randn(3, 100) * 3], lambda x: [functional.gelu(x)]),
    "topk_f32": Style(lambda: [torch.randint(-9, 9, (4, 150)).float()], _top, struct.pack("i", 5)),
    "scatter_add": Style(
        lambda: [torch.tensor([0, 3, -1, 3, 7, -9, 5], dtype=torch.int32), torch.randn(7, 70)], _scattered
    ),
    "quantize_i8": Style(lambda: [torch.cat([torch.randn(3, 300) * 9, torch.zeros(1, 300)])], _quantized),
    "cumsum_f32": Style(lambda: [torch.randn(3, 150)], lambda x: [x.cumsum(-1)]),
    "batched_matmul": Style(
        lambda: [torch.randn(2, 8, 33).bfloat16(), torch.randn(2, 33, 200).bfloat16()],
        lambda a, b: [(a.float() @ b.float()).bfloat16()],
        tolerance=2e-2,
    ),
    "attention_f32": Style(
        lambda: [torch.randn(2, 7, 48) for _ in range(3)], _attention, struct.pack("fi", 0.25, 1), tolerance=1e-4
    ),
}


def wrong(library: Library, name: str) -> list[str]:
    """What is wrong with a kernel: findings of checks, an error, other values. Empty: nothing."""
    style = STYLES[name]
    torch.manual_seed(0)
    inputs = style.inputs()
    wanted = style.reference(*inputs)
    found = []
    for how in ("checked", "in parts"):
        outputs = [torch.full_like(each.float(), 7).to(each.dtype) for each in wanted]
        try:
            if how == "checked":
                found += library.check(name, inputs, outputs, style.parameters).errors
            else:
                library.run(name, inputs, outputs, style.parameters, pieces=3)
        except KernelError as error:
            return [*found, str(error)]
        for number, (mine, theirs) in enumerate(zip(outputs, wanted, strict=True)):
            limit = {"rtol": style.tolerance, "atol": style.tolerance}
            if not torch.allclose(mine.float(), theirs.float(), **limit):
                worst = (mine.float() - theirs.float()).abs().max().item()
                found.append(f"{how}, output {number}: differs by up to {worst:.3g}")
    return found


# Sources of kernels that are not in a file of their name.
SOURCES = {f"gelu_{kind}": f"gelu_variants.c:-DKIND={kind}" for kind in range(4)}


def main() -> int:
    """Build and run all of them, each in a library of its own. Returns how many are wrong."""
    failed = 0
    head, *entries = (HERE / "kernels.toml").read_text().split("[[kernel]]")
    with tempfile.TemporaryDirectory() as temporary:
        for entry in entries:
            name = entry.split('"')[1]
            description, library = Path(temporary) / f"{name}.toml", Path(temporary) / f"lib{name}.so"
            description.write_text(f"{head}[[kernel]]{entry}")
            try:
                building.build(
                    [f"{name}={HERE / SOURCES.get(name, f'{name}.c')}", str(description)], library, Options()
                )
                found = wrong(Library(library), name)
            except BuildError as error:
                found = [str(error)]
            failed += bool(found)
            print(f"{name}: {'; '.join(found) or 'as PyTorch'}", flush=True)
    print(f"{len(entries)} kernels, {failed} of them wrong")
    return failed


if __name__ == "__main__":
    sys.exit(main())
