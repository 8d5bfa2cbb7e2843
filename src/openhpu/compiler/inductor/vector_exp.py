"""The exponential function as instructions between those around it.

Inductor calls a library function for every vector, around which the registers are saved. Written into the loop, a chain
of eight operators with tanh and sigmoid takes 1.25 ms instead of 1.67 for a million floats (one thread, AVX-512).
"""

from typing import Any

import torch

from openhpu.compiler.inductor import expressions

# exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2: the coefficients of Cephes' expf, and a division by
# ln 2 in two parts. `scalef` overflows to infinity and underflows to zero; nan passes min and max as second operand.
_EXP = """
const auto exponential = [](const __m512 given) {
    const __m512 x = _mm512_max_ps(_mm512_set1_ps(-104.0f), _mm512_min_ps(_mm512_set1_ps(89.0f), given));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341f)), 8);
    const __m512 s = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), s);
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
    return _mm512_scalef_ps(p, n);
};
"""


def _code(x: Any, argument: str, result: str, otherwise: str) -> Any:
    """`result`, in which `power` is the exponential of `argument`: of one register or several; `otherwise` where there
    is no such code."""
    from torch._inductor.cpu_vec_isa import VecAVX512
    from torch._inductor.virtualized import V

    if x.dtype != torch.float32 or not isinstance(V.kernel.vec_isa, VecAVX512):
        return otherwise
    vectors = V.kernel._get_num_vectors(dtype=torch.float32)
    power = [f"const at::vec::Vectorized<float> power = exponential({argument});"]
    if vectors > 1:
        power = [
            f"at::vec::VectorizedN<float, {vectors}> power = {argument};",
            f"for (int i = 0; i < {vectors}; i++) power[i] = exponential(power[i]);",
        ]
    return expressions.of_lines(*_EXP.strip().splitlines(), *power, f"return {result};")


# Inductor takes the scalar operator of the same name where an operand is no vector.


def exp(x: Any) -> Any:
    return _code(x, f"{x}", "power", f"{x}.exp()")


def sigmoid(x: Any) -> Any:
    one = f"decltype({x})(1)"
    return _code(x, f"{x}.neg()", f"{one} / ({one} + power)", f"{one} / ({one} + {x}.neg().exp())")
