"""Inductor's uniform random numbers, for each instruction set that this processor has."""

import ctypes
import subprocess

import pytest
import torch
from torch._inductor import cpu_vec_isa
from torch._inductor.cpp_builder import get_cpp_compiler

from openhpu.compiler.inductor import vector_random

PROGRAM = """
#include <immintrin.h>
#include <cstdint>
extern "C" void numbers(int64_t seed, const int64_t* offset, float* result) {{
{code}
}}
"""
ISAS = {"avx512": cpu_vec_isa.VecAVX512, "avx2": cpu_vec_isa.VecAVX2, "none": None}
FLAGS = {"avx512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw"], "avx2": ["-mavx2"], "none": []}


@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.parametrize("name", ISAS)
def test_the_numbers_are_those_of_the_device(name, lanes, tmp_path):
    isa = ISAS[name]() if ISAS[name] else cpu_vec_isa.InvalidVecISA()
    if ISAS[name] and not any(isinstance(each, ISAS[name]) for each in cpu_vec_isa.valid_vec_isa_list()):
        pytest.skip(f"this processor has no {name}")
    code = vector_random.lines(isa, lanes, "seed")
    (tmp_path / "rand.cpp").write_text(PROGRAM.format(code="\n".join(code)))
    command = [get_cpp_compiler(), "-O1", "-shared", "-fPIC", *FLAGS[name], "rand.cpp", "-o", "rand.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "rand.so"))
    seed, total = 4_000_000_123, 96
    offsets, found = torch.arange(total), torch.empty(total)
    for first in range(0, total, lanes):
        part = ctypes.c_void_p(offsets.data_ptr() + 8 * first), ctypes.c_void_p(found.data_ptr() + 4 * first)
        library.numbers(ctypes.c_int64(seed), *part)
    x = torch.ops.openhpu.uniform_(torch.empty(total, device="hpu"), seed, 0.0, 1.0).cpu()
    assert torch.equal(found.clamp(max=1 - 2**-24), x)
    assert x.unique().numel() > 90
