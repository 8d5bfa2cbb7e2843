"""What callgrind_annotate prints, by part."""

from benchmarks.instructions import parts_of

PRINTED = """\
--------------------------------------------------------------------------------
Ir
--------------------------------------------------------------------------------
2,000 (100.0%)  PROGRAM TOTALS

 1,000 (50.00%)  ceval.c:_PyEval_EvalFrameDefault'2 [/usr/lib/libpython3.11.so.1.0]
   500 (25.00%)  ???:at::mm(at::Tensor const&) [clone .isra.0] [/torch/lib/libtorch_cpu.so]
   250 (12.50%)  ???:openhpu::OpCall::inspect() [/openhpu/cores/2.13/_C.cpython-311-x86_64-linux-gnu.so]
   150 ( 7.50%)  ./malloc/./malloc/malloc.c:malloc [/usr/lib/x86_64-linux-gnu/libc.so.6]
   100 ( 5.00%)  ???:cpp_fused_0 [/tmp/recipes/0123/recipe.so]
"""


def test_parts_without_the_total():
    assert parts_of(PRINTED) == {
        "Python": 1000, "PyTorch": 500, "openhpu": 250, "C and C++ libraries": 150, "recipes": 100,
    }  # fmt: skip
