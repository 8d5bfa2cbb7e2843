"""Inductor's uniform random numbers, several at a time.

Inductor generates them one by one, by an object with branches. Written as loops over the lanes of a vector, the same
arithmetic (Philox4x32-10, `normalized_rand_cpu` of PyTorch's cpp_prefix.h) becomes vector instructions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

_PHILOX = """
uint32_t c0[{n}], c1[{n}] = {{}}, c2[{n}] = {{}}, c3[{n}] = {{}};
uint32_t k0 = static_cast<uint32_t>({seed}), k1 = 0;
for (int i = 0; i < {n}; i++) c0[i] = static_cast<uint32_t>(offset[i]);
for (int round = 0; round < 10; round++) {{
    for (int i = 0; i < {n}; i++) {{
        const uint64_t a = uint64_t{{0xD2511F53}} * c0[i], b = uint64_t{{0xCD9E8D57}} * c2[i];
        const uint32_t n0 = static_cast<uint32_t>(b >> 32) ^ c1[i] ^ k0;
        const uint32_t n2 = static_cast<uint32_t>(a >> 32) ^ c3[i] ^ k1;
        c1[i] = static_cast<uint32_t>(b);
        c3[i] = static_cast<uint32_t>(a);
        c0[i] = n0;
        c2[i] = n2;
    }}
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
}}
for (int i = 0; i < {n}; i++)
    result[i] = static_cast<float>(static_cast<int32_t>(c0[i] & 0x7fffffff)) * 4.6566127342e-10f;
"""


def _rand(seed: Any, offset: Any) -> Any:
    from torch._inductor.codegen.common import BracesBuffer
    from torch._inductor.codegen.cpp import DTYPE_TO_CPP
    from torch._inductor.virtualized import V

    lanes = V.kernel.tiling_factor
    vectors = V.kernel._get_num_vectors(dtype=torch.float32)
    kind = "Vectorized<float>" if vectors == 1 else f"VectorizedN<float, {vectors}>"
    code = BracesBuffer()
    code.writeline("[&]()")
    with code.indent():
        code.writeline(f"{DTYPE_TO_CPP[offset.dtype]} offset[{lanes}];")
        code.writeline(f"float result[{lanes}];")
        code.writeline(f"{offset}.store(offset);")
        code.writelines(_PHILOX.format(n=lanes, seed=seed).strip().splitlines())
        code.writeline(f"return at::vec::{kind}::loadu(result);")
    code.writeline("()")
    return code


@contextlib.contextmanager
def vectorised() -> Iterator[None]:
    """While it lasts, Inductor generates them so."""
    from torch._inductor.codegen.cpp import CppVecOverrides

    with mock.patch.object(CppVecOverrides, "rand", staticmethod(_rand)):
        yield
