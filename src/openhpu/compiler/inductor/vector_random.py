"""Inductor's uniform random numbers, several at a time.

Inductor generates them one by one, by an object with branches. Here is the same arithmetic (Philox4x32-10,
`normalized_rand_cpu` of PyTorch's cpp_prefix.h) in vector instructions, on x86 in the processor's own.
"""

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import torch

# Inductor has GCC vectorise no loops. A number lies in the lower half of each lane; what is in the upper half is not
# looked at, neither by the multiplication nor at the end.
_AVX512 = """
using V = __m512i;
const auto mul = [](V a, V b) { return _mm512_mul_epu32(a, b); };
const auto add = [](V a, V b) { return _mm512_add_epi64(a, b); };
const auto both = [](V a, V b, V c) { return _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(a, 32), b), c); };
const auto all = [](uint32_t value) { return _mm512_set1_epi64(value); };
const auto load = [](const int64_t* from) { return _mm512_loadu_si512(from); };
const auto store = [](float* to, V v) {
    const __m256i bits = _mm256_and_si256(_mm512_cvtepi64_epi32(v), _mm256_set1_epi32(0x7fffffff));
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_cvtepi32_ps(bits), _mm256_set1_ps(4.6566127342e-10f)));
};
"""
_AVX2 = """
using V = __m256i;
const auto mul = [](V a, V b) { return _mm256_mul_epu32(a, b); };
const auto add = [](V a, V b) { return _mm256_add_epi64(a, b); };
const auto both = [](V a, V b, V c) { return _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), b), c); };
const auto all = [](uint32_t value) { return _mm256_set1_epi64x(value); };
const auto load = [](const int64_t* from) { return _mm256_loadu_si256(reinterpret_cast<const V*>(from)); };
const auto store = [](float* to, V v) {
    const V low = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
    const __m128i bits = _mm_and_si128(_mm256_castsi256_si128(low), _mm_set1_epi32(0x7fffffff));
    _mm_storeu_ps(to, _mm_mul_ps(_mm_cvtepi32_ps(bits), _mm_set1_ps(4.6566127342e-10f)));
};
"""
_OTHER = """
using V = uint64_t;
const auto mul = [](V a, V b) { return (a & 0xffffffff) * b; };
const auto add = [](V a, V b) { return a + b; };
const auto both = [](V a, V b, V c) { return (a >> 32) ^ b ^ c; };
const auto all = [](uint32_t value) { return V{value}; };
const auto load = [](const int64_t* from) { return static_cast<V>(*from); };
const auto store = [](float* to, V v) {
    *to = static_cast<float>(static_cast<int32_t>(v & 0x7fffffff)) * 4.6566127342e-10f;
};
"""
_PHILOX = """
constexpr int width = sizeof(V) / sizeof(int64_t), n = {n} / width;
V c0[n], c1[n], c2[n], c3[n], k0 = all(static_cast<uint32_t>({seed})), k1 = all(0);
const V a = all(0xD2511F53), b = all(0xCD9E8D57), next0 = all(0x9E3779B9), next1 = all(0xBB67AE85);
for (int i = 0; i < n; i++) {{
    c0[i] = load(offset + i * width);
    c1[i] = c2[i] = c3[i] = all(0);
}}
for (int round = 0; round < 10; round++) {{
    for (int i = 0; i < n; i++) {{
        const V wide0 = mul(c0[i], a), wide2 = mul(c2[i], b);
        c0[i] = both(wide2, c1[i], k0);
        c2[i] = both(wide0, c3[i], k1);
        c1[i] = wide2;
        c3[i] = wide0;
    }}
    k0 = add(k0, next0);
    k1 = add(k1, next1);
}}
for (int i = 0; i < n; i++) store(result + i * width, c0[i]);
"""


def _instructions(isa: Any) -> str:
    from torch._inductor.cpu_vec_isa import VecAVX2, VecAVX512

    if isinstance(isa, VecAVX512):
        return _AVX512
    return _AVX2 if isinstance(isa, VecAVX2) else _OTHER


def lines(isa: Any, lanes: int, seed: Any) -> list[str]:
    """C++ that puts the numbers of elements `offset` (64-bit, as many as lanes) into `result` (float)."""
    return [*_instructions(isa).strip().splitlines(), *_PHILOX.format(n=lanes, seed=seed).strip().splitlines()]


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
        code.writeline(f"{DTYPE_TO_CPP[offset.dtype]} given[{lanes}];")
        code.writeline(f"int64_t offset[{lanes}];")
        code.writeline(f"float result[{lanes}];")
        code.writeline(f"{offset}.store(given);")
        code.writeline(f"for (int i = 0; i < {lanes}; i++) offset[i] = given[i];")
        code.writelines(lines(V.kernel.vec_isa, lanes, seed))
        code.writeline(f"return at::vec::{kind}::loadu(result);")
    code.writeline("()")
    return code


def vectorised() -> AbstractContextManager[Any]:
    """While it lasts, Inductor generates them so."""
    from torch._inductor.codegen.cpp import CppVecOverrides

    return mock.patch.object(CppVecOverrides, "rand", staticmethod(_rand))
