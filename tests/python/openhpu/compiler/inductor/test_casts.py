"""Conversions of numbers that do not fit, in generated code: what the CPU device gives, by each instruction set."""

import pytest
import torch
from torch._inductor import cpu_vec_isa

from tests.processes import clean_environment, run_code

# In a process of its own, as the compile process is. Each special number is in each place of a row: rows consist of
# several vectors and of what remains.
SCRIPT = """
    from pathlib import Path
    import torch
    from torch._inductor import config
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from openhpu.compiler.inductor import inductor

    FLOATS = [
        300.0, -0.0, 0.5, -0.9, -1.0, 127.9, 128.0, -128.9, -129.0, 255.9, 256.5, -300.0, 32769.0, -32770.0, 65537.0,
        70001.0, 2.0**31 - 1, 2.0**31, 2.0**31 + 5, -(2.0**31) - 5, 2.0**32 + 5, 3e9, -3e9, 1e10 + 7, -1e10 - 7,
        1e15 + 3, 9.223372036854775e18, 2.0**63, -(2.0**63), -(2.0**63) - 2048, 1.8e19, 1e20, -1e20, 1e38, 1e300,
        -1e300, float("inf"), -float("inf"), float("nan"), 465.0, -480.0, 57345.0, 65519.0, 65520.0,
    ]
    INTEGERS = [
        300, -1, 128, -129, 32768, 65537, 2**24 + 1, 2**31, -(2**31) - 7, 2**32 + 5, 2**53 + 1, 2**62 + 2**38 + 1,
        -(2**62) - 2**38 - 1, 2**63 - 1, -(2**63),
    ]
    WIDTH = 37

    def numbers(dtype):
        values = torch.tensor(FLOATS, dtype=torch.float64) if dtype.is_floating_point else torch.tensor(INTEGERS * 3)
        rows = torch.stack([values.to(dtype).roll(-k)[:WIDTH] for k in range(len(values))])
        return torch.nn.functional.pad(rows, (0, 3))[:, :WIDTH]

    I8, U8, I16, U16, I32, I64, U64 = (getattr(torch, n) for n in "int8 uint8 int16 uint16 int32 int64 uint64".split())
    F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
    FORMS = {
        "vectors": lambda x: [*(x.to(d) for d in (I8, U8, I32, I64)), x.float().double()],
        "between others": lambda x: [(x.neg().to(d) * 3).float() for d in (I8, U8)],
        "one by one": lambda x: [x.to(d) for d in (I8, U8, I16, U16, I32, I64, U64, F32)],  # no vectors of int16
        "turned": lambda x: [x.t().to(I8).clone(memory_format=torch.contiguous_format)],
        "constants": lambda x: [torch.where(x > 0, 300.0, -3e9).to(d) for d in (I8, U8, I32)],
        "a constant": lambda x: [torch.full_like(x, c).to(d) for c in (3e4, float("nan")) for d in (I8, U8, I32)],
        "of integers": lambda x: [x.to(d) for d in (I8, I32, F32, F64)],
        "8-bit floats": lambda x: [x.to(d).float() for d in (torch.float8_e4m3fn, torch.float8_e5m2)],
    }
    TABLE = [
        *(("vectors", d) for d in (F32, F64, BF16, F16)), ("between others", F32), ("between others", BF16),
        ("one by one", F32), ("one by one", F64), ("turned", F32), ("constants", F32), ("a constant", F32),
        ("of integers", I64), ("of integers", I32), ("8-bit floats", F32),
    ]

    def program(*inputs):
        return tuple(y for (form, _), x in zip(TABLE, inputs, strict=True) for y in FORMS[form](x))

    inputs = [numbers(dtype) for _, dtype in TABLE]
    expected = program(*inputs)
    names = [
        f"{form}, {dtype} to {y.dtype}" for form, dtype in TABLE for y in FORMS[form](torch.zeros(1, 1, dtype=dtype))
    ]
    graph = make_fx(program, tracing_mode="fake", decomposition_table=inductor.decompositions())(*inputs)
    mode, folder = FakeTensorMode(), Path("recipe").absolute()
    folder.mkdir()
    with config.patch({"cpp.simdlen": BITS}):
        inductor.build(graph, [mode.from_tensor(x) for x in inputs], 1, folder)
    outputs = torch._C._aoti.AOTIModelContainerRunnerCpu("recipe/recipe.so", 1).run(inputs)
    torch.save(list(zip(names, expected, outputs, strict=True)), "outputs.pt")
"""
ISAS = {512: cpu_vec_isa.VecAVX512, 256: cpu_vec_isa.VecAVX2}
HERE = [bits for bits, isa in ISAS.items() if any(isinstance(each, isa) for each in cpu_vec_isa.valid_vec_isa_list())]
NONE = 1  # Inductor knows no vectors of one bit


@pytest.mark.parametrize("bits", [*HERE, NONE])
def test_numbers_are_those_of_the_cpu_device(bits, tmp_path):
    run_code(SCRIPT.replace("BITS", str(bits)), tmp_path, clean_environment(tmp_path), "ignore", False)
    code = "".join(path.read_text() for path in tmp_path.glob("recipe/*.kernel.cpp"))
    assert ("openhpu::to_integers<int8_t, 1, float, 1>" in code) == (bits != NONE)
    assert "openhpu::to_integer<int16_t>" in code
    outputs = torch.load(tmp_path / "outputs.pt")
    assert len(outputs) > 50
    different = {}
    for name, expected, actual in outputs:
        assert actual.dtype == expected.dtype, name
        same = (actual == expected) | (actual != actual) & (expected != expected)
        if not same.all():
            different[name] = list(zip(expected[~same].tolist(), actual[~same].tolist(), strict=True))[:5]
    assert not different
