"""Seventy pieces of TPC-C, each with the value that every lane of the output has: a page of the language.

A piece is the body of a loop over the index space. `x` and `y` are registers of the inputs, `n` and `f` are numbers of
`main`, and it stores `r`. The value is Python for one lane: x, y, n, f, and i (the lane).
"""

from typing import NamedTuple


class Snippet(NamedTuple):
    """`outside`: what stands before `main`; `kind`: the type of the lanes."""

    name: str
    body: str
    value: str
    outside: str = ""
    kind: str = "f32"


SNIPPETS = (
    Snippet("splat of an integer", "float64 r = 0;", "0"),
    Snippet("splat of a number", "float64 r = f;", "f"),
    Snippet("splat by a cast", "float64 r = (float64)n + x;", "n + x"),
    Snippet("scalar times vector", "float64 r = x * f;", "x * f"),
    Snippet("vector and double literal", "float64 r = x + 0.5;", "x + 0.5"),
    Snippet("scalar on the left", "float64 r = 1 - x;", "1 - x"),
    Snippet("division", "float64 r = x / 4.0f;", "x / 4"),
    Snippet("minus", "float64 r = -x;", "-x"),
    Snippet("compound assignment", "float64 r = x; r += y; r *= 2; r -= 1;", "(x + y) * 2 - 1"),
    Snippet(
        "volatile vectors",
        "volatile float64 v = x; v += y; held[0] = v; float64 r = held[0];",
        "x + y",
        "volatile __local float64 held[4];",
    ),
    Snippet("two in a declaration", "float64 a = x, r = a + 1;", "x + 1"),
    Snippet("conditional of vectors", "float64 r = x > y ? x : y;", "max(x, y)"),
    Snippet("conditional with a scalar branch", "float64 r = x > 0.0f ? x : 0;", "max(x, 0)"),
    Snippet("conditional with a scalar condition", "float64 r = n > 2 ? x : y;", "x if n > 2 else y"),
    Snippet(
        "conditionals in a row", "float64 r = x > 1.0f ? 1 : x < -1.0f ? -1 : x;", "1 if x > 1 else -1 if x < -1 else x"
    ),
    Snippet("conditional in an argument", "float64 r = v_f32_add_b(x > y ? x : y, n ? 1.0f : 2.0f);", "max(x, y) + 1"),
    Snippet("conditional in an index", "int5 p = {n ? 1 : 2, 3}; float64 r = p[0] + p[1];", "4"),
    Snippet(
        "conditional behind a label",
        "float64 r; switch (n) { case 3: r = f > 1 ? x : y; break; default: r = 0; }",
        "x if f > 1 else y",
    ),
    Snippet("conditional with effects", "int k = 0; n > 2 ? k++ : k--; float64 r = k;", "1"),
    Snippet("conditional of pointers", "float64 a = x; float64* p = n ? &a : 0; float64 r = *p;", "x"),
    Snippet("predicate in a variable", "bool64 b = x < y; float64 r = b ? 1.0f : 0.0f;", "float(x < y)"),
    Snippet(
        "predicates combined",
        "bool64 b = (x < y) & !(x < 0.0f) | (y > 1.0f); float64 r = b ? 1 : 0;",
        "float((x < y and not x < 0) or y > 1)",
    ),
    Snippet("predicate of 256 lanes", "bool256 b = x < y; bool64 c = b; float64 r = c ? x : y;", "min(x, y)"),
    Snippet("predicate from a boolean", "bool64 b = n > 100; float64 r = b ? x : y;", "y"),
    Snippet("scalar boolean", "bool b = n; _Bool c = !b; float64 r = b + c;", "1"),
    Snippet("cast keeps bits", "float64 r = (float64)((uint64)x & 0x7fffffff);", "abs(x)"),
    Snippet("cast to integers and back", "int64 a = (int64)x; float64 r = (float64)a;", "x"),
    Snippet(
        "pointer that reinterprets",
        "float64 a = x; int64 b = *(int64*)&a; b &= 0x7fffffff; float64 r = *(float64*)&b;",
        "abs(x)",
    ),
    Snippet("bits as another type", "float64 r = as_float64(as_uint64(x) & 0x7fffffff);", "abs(x)"),
    Snippet("bits of a scalar", "float64 r = as_float(as_int(f) + 0x800000);", "2 * f"),
    Snippet(
        "pairs by their longer names",
        "float64_float64_pair_t p = {x, y}; float64_pair_t q = p; float64_int64_pair_t m = {q.v2, (int64)n};\n"
        "float64 r = q.v1 + m.v1 + v_convert_i32_to_f32_b(m.v2);",
        "x + y + n",
    ),
    Snippet("switches as numbers", "float64 r = v_f32_mac_b(x, y, x, 1 << 1);", "x - x * y"),
    Snippet(
        "random numbers by their register",
        "uint64 a = (uint64)LFSR_NO_CHANGE, b = (uint64)LFSR; unsigned s = S_LFSR_NO_CHANGE;\n"
        "float64 r = (a == b) & (s == S_LFSR) ? 1 : 0;",
        "1",
    ),
    Snippet("shift of lanes", "uint64 a = 1; a = a << 4; a |= a >> 3; float64 r = v_convert_u32_to_f32_b(a);", "18"),
    Snippet("numbers of lanes", "float64 r = v_convert_u32_to_f32_b(V_LANE_ID_32);", "i"),
    Snippet("complement", "int64 a = ~(int64)5; float64 r = v_convert_i32_to_f32_b(a);", "-6"),
    Snippet(
        "remainder of vectors", "int64 a = (int64)V_LANE_ID_32 % 5; float64 r = v_convert_i32_to_f32_b(a);", "i % 5"
    ),
    Snippet("increment of vectors", "int64 a = 3; a++; ++a; float64 r = v_convert_i32_to_f32_b(a);", "5"),
    Snippet("literal of a vector", "float64 r = (float64){0};", "0"),
    Snippet("array of vectors", "float64 a[3] = {x, y}; float64 r = a[0] + a[1] + a[2];", "x + y"),
    Snippet("array with designators", "int a[4] = {[2] = 5, [0] = 1}; float64 r = a[0] + a[1] + a[2] + a[3];", "6"),
    Snippet("coordinates with designators", "int5 p = {[1] = 4, [0] = n}; float64 r = p[0] + p[1] + p[2];", "n + 4"),
    Snippet("coordinates with named designators", "const int dim = 1; int5 p = {[dim] = 4}; float64 r = p[1];", "4"),
    Snippet("literal of coordinates", "float64 r = v_f32_ld_tnsr_b((int5){at[0], at[1]}, in);", "x"),
    Snippet(
        "arithmetic of coordinates",
        "int5 p = at; p[0] += 64; p = p - (int5){64}; p += 0; float64 r = v_f32_ld_tnsr_b(p, in);",
        "x",
    ),
    Snippet("pair", "float128 p = {x, y}; float64 r = p.v1 - p.v2;", "x - y"),
    Snippet(
        "pair with designators", "float128 p = {.v2 = y, .v1 = x}; p.v1 += 1; float64 r = p.v1 - p.v2;", "x + 1 - y"
    ),
    Snippet("pair of zeros", "float128 p = {0}; float64 r = p.v1 + p.v2 + x;", "x"),
    Snippet("quad", "float256 q = {x, y, x, y}; float64 r = q.v3 + q.v4;", "x + y"),
    Snippet("literal of a pair", "float64 r = ((float128){x, y}).v2;", "y"),
    Snippet(
        "struct of the kernel",
        "struct pt p = {.b = 2, .a = n}; float64 r = p.a * 10 + p.b;",
        "n * 10 + 2",
        "struct pt { int a, b; };",
    ),
    Snippet(
        "function of the kernel",
        "float64 r = twice(x);",
        "2 * x",
        "static inline float64 twice(float64 v) { return v + v; }",
    ),
    Snippet(
        "function by pointer",
        "float64 r = x; scale(&r, f);",
        "x * f",
        "void scale(float64* v, float by) { *v = *v * by; }",
    ),
    Snippet("recursion", "float64 r = sum(n);", "n * (n + 1) / 2", "int sum(int k) { return k ? k + sum(k - 1) : 0; }"),
    Snippet(
        "macro with a conditional",
        "float64 r = CLAMP(x);",
        "min(max(x, -1), 1)",
        "#define CLAMP(v) ((v) > 1.0f ? 1.0f : (v) < -1.0f ? -1.0f : (v))",
    ),
    Snippet("names that C++ has taken", "int new = n, this = 1, class = 2; float64 r = new + this + class;", "n + 3"),
    Snippet(
        "function named as a keyword", "float64 r = xor(n, 1);", "n ^ 1", "int xor(int a, int b) { return a ^ b; }"
    ),
    Snippet("local memory", "kept[1] = x; kept[0] = y; float64 r = kept[1];", "x", "__local__ float64 kept[4];"),
    Snippet(
        "scalars in local memory", "count[2] = n; float64 r = count[2] + count[0] * 0;", "n", "__local__ int count[8];"
    ),
    Snippet(
        "pragma before a loop", "float64 r = 0;\n#pragma loop_unroll(4)\nfor (int k = 0; k < 8; k++) r += x;", "8 * x"
    ),
    Snippet("generation", "float64 r;\n#if defined(__gaudi2__)\nr = 2;\n#else\nr = 1;\n#endif", "2"),
    Snippet("goto", "float64 r = x; int k = 0;\nagain: r = r + 1; if (++k < 3) goto again;", "x + 3"),
    Snippet("enumeration", "enum kind k = second; float64 r = k;", "7", "enum kind { first = 3, second = 7 };"),
    Snippet("integer from a comparison", "int k = (n > 2) + (n > 3); float64 r = k;", "1"),
    Snippet("bf16 as a number", "bf16 h = f; float64 r = h * 2.0f;", "2 * f"),
    Snippet("bf16 from an integer", "bf16 h = 3; bf16 g = h * h; g += 1; float64 r = g;", "10"),
    Snippet("bf16 in a conditional", "bf16 h = f; float g = n > 2 ? h : 0.25f; float64 r = g;", "f"),
    Snippet("vectors of bf16", "bfloat128 r = x * (bf16)0.5f + y;", "x * 0.5 + y", kind="bf16"),
    Snippet("conditional of bf16", "bfloat128 r = x > y ? x : (bf16)0;", "x if x > y else 0", kind="bf16"),
    Snippet("vectors of short", "short128 r = (x & 15) + (y << 1);", "(x & 15) + y * 2", kind="i16"),
    Snippet("vectors of char", "char256 r = x - y; r ^= 1;", "(x - y) ^ 1", kind="i8"),
    Snippet("vectors of int", "int64 r = x > y ? x * 3 : y | 1;", "x * 3 if x > y else y | 1", kind="i32"),
)
