"""Inductor's uniform random numbers, several at a time.

Inductor generates them one by one, by an object with branches. Here is the same arithmetic (Philox4x32-10,
`normalized_rand_cpu` of PyTorch's cpp_prefix.h) in vectors of the C++ compiler, as wide as the processor's.
"""

from typing import Any

import torch

from openhpu.compiler.inductor import expressions

# Inductor has GCC vectorise no loops. A number lies in the lower half of each lane; what is in the upper half is not
# looked at, neither by the multiplication nor at the end. GCC would multiply whole lanes, for which x86 takes three
# times as long: so its product of halves is named.
_PHILOX = """
typedef uint64_t V __attribute__((vector_size({bytes})));
typedef int32_t Bits __attribute__((vector_size({bytes} / 2)));
typedef float Numbers __attribute__((vector_size({bytes} / 2)));
const auto mul = [](V a, V b) {{ return {product}; }};
constexpr int width = sizeof(V) / sizeof(int64_t), n = {n} / width;
V c0[n], c1[n], c2[n], c3[n], k0 = V{{}} + static_cast<uint32_t>({seed}), k1 = V{{}};
const V a = V{{}} + 0xD2511F53, b = V{{}} + 0xCD9E8D57;
for (int i = 0; i < n; i++) {{
    __builtin_memcpy(&c0[i], offset + i * width, sizeof(V));
    c1[i] = c2[i] = c3[i] = V{{}};
}}
for (int round = 0; round < 10; round++) {{
    for (int i = 0; i < n; i++) {{
        const V wide0 = mul(c0[i], a), wide2 = mul(c2[i], b);
        c0[i] = (wide2 >> 32) ^ c1[i] ^ k0;
        c2[i] = (wide0 >> 32) ^ c3[i] ^ k1;
        c1[i] = wide2;
        c3[i] = wide0;
    }}
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
}}
for (int i = 0; i < n; i++) {{
    const Bits bits = __builtin_convertvector(c0[i] & 0x7fffffff, Bits);
    const Numbers numbers = __builtin_convertvector(bits, Numbers) * 4.6566127342e-10f;
    __builtin_memcpy(result + i * width, &numbers, sizeof(numbers));
}}
"""


def lines(isa: Any, lanes: int, seed: Any) -> list[str]:
    """C++ that puts the numbers of elements `offset` (64-bit, as many as lanes) into `result` (float)."""
    from torch._inductor.cpu_vec_isa import VecAVX2, VecAVX512

    bits = 64
    if isinstance(isa, VecAVX512):
        bits = 512
    elif isinstance(isa, VecAVX2):
        bits = 256
    product = "(a & 0xffffffff) * b" if bits == 64 else f"(V)_mm{bits}_mul_epu32((__m{bits}i)a, (__m{bits}i)b)"
    return _PHILOX.format(bytes=bits // 8, product=product, n=lanes, seed=seed).strip().splitlines()


def rand(seed: Any, offset: Any) -> Any:
    """As Inductor's vector code has it."""
    from torch._inductor.codegen.cpp import DTYPE_TO_CPP
    from torch._inductor.virtualized import V

    lanes = V.kernel.tiling_factor
    vectors = V.kernel._get_num_vectors(dtype=torch.float32)
    kind = "Vectorized<float>" if vectors == 1 else f"VectorizedN<float, {vectors}>"
    return expressions.of_lines(
        f"{DTYPE_TO_CPP[offset.dtype]} given[{lanes}];",
        f"int64_t offset[{lanes}];",
        f"float result[{lanes}];",
        f"{offset}.store(given);",
        f"for (int i = 0; i < {lanes}; i++) offset[i] = given[i];",
        *lines(V.kernel.vec_isa, lanes, seed),
        f"return at::vec::{kind}::loadu(result);",
    )
