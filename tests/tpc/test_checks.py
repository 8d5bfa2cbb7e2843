"""Checks of kernels: each fault is named with its line, coordinates and member; faultless kernels pass."""

import re
import struct
import subprocess
import sys

import pytest
import torch

from commands import ROOT
from openhpu_tpc.command import main
from openhpu_tpc.loading import KernelError, Library
from tests.tpc.libraries import built, library
from tests.tpc.test_running import main_of

EACH = "for (int row = at[1]; row < at[1] + size[1]; row++) for (int k = at[0]; k < at[0] + size[0]; k++) {\n"
COPY = "v_f32_st_tnsr((int5){k * 64, row}, out, v_f32_ld_tnsr_b((int5){k * 64, row}, in)); }"
LOCAL = "__local__ float64 kept[2];\n__local__ float once;\n__local__ float64* place;\n"
PATTERN = 'complete = true\naccess = { out0 = [["64 * i0", "64 * i0 + 63"], "i1"] }\n'
# The body of a kernel, and what its checks say about it. Line 4 is the first of the body.
FAULTS = {
    "good": ((EACH + COPY), None),
    "race": (
        (EACH + "v_f32_st_tnsr((int5){k * 64, row / 2}, out, (float64)1); }"),
        r"race.c:5: race: member \(0, 1\) stores out0\[0, 0\], which member \(0, 0\) stores too \(",
    ),
    "missing": (
        (EACH + "if (row != 2) v_f32_st_tnsr((int5){k * 64, row}, out, (float64)1); }"),
        r"^not written: no member has stored out0\[0, 2\], out0\[1, 2\].* and others.*complete \(100 in all\)",
    ),
    "elsewhere": (
        (EACH + "v_f32_st_tnsr((int5){k * 64 + 1, row}, out, (float64)1); }"),
        r"elsewhere.c:5: store outside the pattern: member \(0, 0\) stores out0\[64, 0\]; the pattern gives it 0 to 63",
    ),
    "reads": (
        (EACH + "float64 v = v_f32_ld_tnsr_b((int5){k * 64, row}, out);\n" + COPY.replace("));", ") + v);")),
        r"reads.c:5: read of nothing: member \(0, 0\) reads out0\[0, 0\], which nobody has written",
    ),
    "adds": (
        (EACH + "v_f32_st_tnsr_rmw((int5){k * 64, row}, out, (float64)1, RMW_OP_ADD | RMW_DT_FP32); }"),
        r"adds.c:5: read of nothing: member \(0, 0\) adds to out0\[0, 0\].*memsetBeforeExecution",
    ),
    "neighbour": (
        (
            EACH + COPY + "\nif (at[1] > 0) v_f32_st_tnsr((int5){at[0] * 64, at[1]}, out,\n"
            "v_f32_ld_tnsr_b((int5){at[0] * 64, at[1] - 1}, out));"
        ),
        r"neighbour.c:7: race: member \(0, 1\) reads out0\[0, 0\], which member \(0, 0\) stores",
    ),
    "writes_in": (
        (EACH + COPY[:-1] + "\nv_f32_st_tnsr((int5){k * 64, row}, in, (float64)0); }"),
        r"writes_in.c:6: store into an input: member \(0, 0\) stores in0\[0, 0\]",
    ),
    "unset": (
        (EACH + "v_f32_st_tnsr((int5){k * 64, row}, out, kept[0] * once); }"),
        r"unset.c:5: local memory: member \(0, 0\) reads byte 0 of kept, which nobody has written",
    ),
    "left_over": (
        ("if (at[1] == 0) kept[1] = 2.0f;\n" + EACH + "v_f32_st_tnsr((int5){k * 64, row}, out, kept[1]); }"),
        r"left_over.c:6: local memory: member \(0, 1\) reads byte 256 of kept, which only member \(1, 0\) has written",
    ),
    "index": (
        (EACH + "int n = 2;\nkept[n] = 1.0f;\n" + COPY),
        r"index.c:6: local memory: member \(0, 0\) uses the index 2 of kept, which has 2 elements",
    ),
    "pointer": (EACH + "place = &kept[0];\nplace[1] = 2.0f;\nfloat64 v = place[1] * kept[1];\n" + COPY, None),
    "number": (
        (EACH + "float64 v = v_f32_ld_l_v_b(512);\nv_f32_st_tnsr((int5){k * 64, row}, out, v); }"),
        r"number.c:5: local memory: member \(0, 0\) reads byte 512 of vector local memory, which nobody has written",
    ),
    "beyond": (
        (EACH + "float* p = (float*)gen_addr((int5){k * 64, row}, in);\nfloat v = s_f32_ld_g(p - 1000);\n" + COPY),
        r"beyond.c:6: load nowhere: member \(0, 0\) uses an address that belongs to no tensor",
    ),
    "address": (
        (EACH + COPY[:-1] + "\ns_f32_st_g(gen_addr((int5){5, 0}, out), 1.0f); }"),
        r"address.c:6: store outside the pattern: member \(1, 0\) stores out0\[5, 0\]; the pattern gives it 64 to 127",
    ),
}
# Bodies that have to be ended, and the error of the check.
ENDED = {
    "endless": ("volatile int stop = 0;\nwhile (!stop)\n;\n", r"longer than its deadline, at .*endless.c:[456]"),
    "deep": ("volatile int r = deeper((volatile int*)0, 0);\n", r"used an address outside its tensors, at "),
}
DEEPER = "int deeper(volatile int* p, int n) { volatile int k[64]; k[0] = n; return deeper(k, n + 1) + k[0]; }\n"
# Kernels of their own, because what is wrong is said of the whole kernel.
ALONE = {
    "large": (
        "__local__ float64 much[400];\n" + main_of(EACH + COPY),
        r"too much local memory: 102400 bytes in .*large.c:1 much; gaudi2 has 81920",
    ),
    "older": (
        main_of(EACH + "short128 s = v_convert_int32_to_i16_b((int64)1, (char256)0, 0, 0, (short128)0);\n" + COPY),
        r"not in this generation: .*older.c:5: gaudi2 has no v_convert_int32_to_i16_b; gaudi has",
    ),
}


def _function(name, body):
    return (
        f'#line 1 "{name}.c"\nvoid {name}(tensor in, tensor out)\n{{\n'
        f"int5 at = get_index_space_offset(), size = get_index_space_size();\n{body}\n}}\n"
    )


def _kernel(guid, scalars=0):
    return (
        f'[[kernel]]\nguid = "{guid}"\nsource = "{guid}.c"\ninputs = ["f32"]\noutputs = ["f32"]\n'
        f'space = ["out0[0] / 64", "out0[1]"]\nscalars = {scalars}\n{PATTERN}'
    )


CHOICES = [*FAULTS, *ENDED]
CHOICE = "".join(f"if (which == {number}) {name}(in, out);\n" for number, name in enumerate(CHOICES))
FUNCTIONS = DEEPER + "".join(_function(name, body) for name, (body, _) in (FAULTS | ENDED).items())
FILES = {
    "any.c": f"{LOCAL}{FUNCTIONS}void main(tensor in, tensor out, int which)\n{{\n{CHOICE}}}\n",
    **{f"{name}.c": text for name, (text, _) in ALONE.items()},
    "all.toml": _kernel("any", 1) + "".join(map(_kernel, ALONE)),
}


@pytest.fixture(scope="module")
def kernels():
    return library(FILES, checks=True)


def checked(kernels, name):
    """The report about a fault, and what the kernel read and wrote."""
    x, y = torch.randn(3, 100), torch.zeros(3, 100)
    if name in ALONE:
        return kernels.check(name, [x], [y]), x, y
    return (
        kernels.check("any", [x], [y], struct.pack("i", CHOICES.index(name)), seconds=5.0 if name in FAULTS else 0.5),
        x,
        y,
    )


@pytest.mark.parametrize("name", [*FAULTS, *ALONE])
def test_a_fault_is_named(kernels, name):
    report, x, y = checked(kernels, name)
    wanted = (FAULTS | ALONE)[name][1]
    if wanted is None:
        assert report.errors == []
        assert torch.equal(x, y)
        return
    assert any(re.search(wanted, error) for error in report.errors), report.errors


@pytest.mark.parametrize("name", ENDED)
def test_a_kernel_is_ended_while_it_is_checked(kernels, name):
    with pytest.raises(KernelError, match=f"the kernel any .*{ENDED[name][1]}"):
        checked(kernels, name)
    report, x, y = checked(kernels, "good")
    assert report.errors == []
    assert torch.equal(x, y)


def test_coordinates_outside_are_counted(kernels):
    report, _, _ = checked(kernels, "good")
    assert len(report.notes) == 2
    for kind, note in zip(("load", "store"), report.notes, strict=True):
        assert f"good.c:5: {kind} outside: {kind}s " in note
        assert "with 28 elements outside the tensor, which is allowed" in note
        assert note.endswith("(84 in all)")


def test_the_account(kernels, capsys):
    report, _, _ = checked(kernels, "good")
    assert report.account[:8] == (6, 0, 0, 6, 6, 6 * 256, 6 * 256, 0)
    path = str(built(FILES, checks=True))
    assert main(["check", path, "any", "-p", "0", "-i", "f32[3,100]", "-o", "f32[3,100]"]) == 0
    printed = capsys.readouterr().out
    assert "loads of tensors                    1.0              6" in printed
    assert "gaudi2: at least" in printed
    assert main(["check", path, "any", "-p", "1", "-i", "f32[3,100]", "-o", "f32[3,100]"]) == 1
    assert "error: " in capsys.readouterr().out
    assert main(["check", path, "any", "-p", "0", "-i", "f33[3]", "-o", "f32[3,100]"]) == 2
    assert "'f33[3]' is no tensor" in capsys.readouterr().err


LINES = """[[kernel]]
guid = "lines"
source = "lines.c"
inputs = ["f32"]
outputs = ["f32"]
space = ["out0[1]"]
"""


def test_a_kernel_without_checks_prints_a_limited_number_of_lines():
    source = main_of(
        'for (int i = 0; i < 1000000; i++) printf("line %d\\n", i);\nbf16 half = 0.5f;\nprintf("%.2f\\n", half);\n'
    )
    path = built({"lines.c": source, "lines.toml": LINES})
    script = (
        "import torch, sys\nfrom pathlib import Path\nfrom openhpu_tpc.loading import Library\n"
        "Library(Path(sys.argv[1])).run('lines', [torch.zeros(1, 64)], [torch.zeros(1, 64)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == ["line 0", "line 1"]
    assert len(lines) == 10_001
    assert "has printed 10,000 lines" in lines[-1]
    with pytest.raises(KernelError, match="the kernel lines was built without checks"):
        Library(path).check("lines", [torch.zeros(1, 64)], [torch.zeros(1, 64)])
