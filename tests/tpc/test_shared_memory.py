"""Checks of kernels whose operands share memory: an output that is an input, a part of one, or another output."""

import re
import struct

import pytest
import torch

from openhpu_tpc.command import main
from tests.tpc.libraries import built, library
from tests.tpc.test_running import main_of

EACH = "for (int k = at[0]; k < at[0] + size[0]; k++) {\nint5 p = {k * 64};\n"
IN, OUT = "v_f32_ld_tnsr_b(p, a)", "v_f32_ld_tnsr_b(p, b)"
RMW = "RMW_OP_ADD | RMW_DT_FP32"
ADDRESS = "float* to = (float*)gen_addr((int5){k * 64}, b);\ns_f32_st_g(to, 1.0f + s_f32_ld_g(gen_addr(p, a)));\n"
# A body for each kernel. `a` is its input, `b` and `c` are its outputs, and a member has 64 elements of each.
BODIES = {
    "doubles": f"v_f32_st_tnsr(p, b, {IN} * 2.0f);\n",
    "doubles_output": f"v_f32_st_tnsr(p, b, {OUT} * 2.0f);\n",
    "adds": f"v_f32_st_tnsr_rmw(p, b, {IN}, {RMW});\n",
    "adds_to_first": f"v_f32_st_tnsr_rmw((int5){{0}}, b, {IN}, {RMW});\n",
    "sets_and_adds": f"v_f32_st_tnsr(p, b, {IN});\nv_f32_st_tnsr_rmw((int5){{0}}, b, {IN}, {RMW});\n",
    "neighbour": "float64 next = v_f32_ld_tnsr_b((int5){k * 64 + 64}, a);\nv_f32_st_tnsr(p, b, next);\n",
    "before": "float64 next = v_f32_ld_tnsr_b((int5){k * 64 - 64}, a);\nv_f32_st_tnsr(p, b, next);\n",
    "both_read": (
        f"float64 v = v_f32_ld_tnsr_b((int5){{64}}, a) + {IN};\nif (k == 2) v_f32_st_tnsr((int5){{64}}, b, v);\n"
    ),
    "first_only": f"if (k == 0) v_f32_st_tnsr(p, b, {IN});\n",
    "by_address": ADDRESS,
    "two": f"v_f32_st_tnsr(p, b, {IN});\nv_f32_st_tnsr(p, c, {IN} + 1.0f);\n",
    "two_crossed": f"v_f32_st_tnsr(p, b, {IN});\nv_f32_st_tnsr((int5){{128 - k * 64}}, c, {IN});\n",
    "halves": f"if (k < 2) v_f32_st_tnsr(p, b, {IN});\nif (k >= 2) v_f32_st_tnsr(p, c, {IN});\n",
    "into_input": "v_f32_st_tnsr(p, a, (float64)3);\n",
}
CHOICE = "".join(f"if (which == {number}) {{\n{body}}}\n" for number, body in enumerate(BODIES.values()))
KERNEL = main_of(EACH + CHOICE + "}", "tensor a, tensor b, tensor c, int which")
DESCRIBED = "".join(
    f'[[kernel]]\nguid = "{guid}"\nsource = "shared.c"\ninputs = ["f32"]\noutputs = ["f32", "f32"]\nscalars = 1\n'
    f'space = ["out0[0] / 64"]\n{rest}\n'
    for guid, rest in {"free": "", "complete": "complete = true"}.items()
)


FILES = {"shared.c": KERNEL, "shared.toml": DESCRIBED}


@pytest.fixture(scope="module")
def kernels():
    return library(FILES, checks=True)


def apart(x):
    return x, torch.zeros_like(x), torch.zeros_like(x)


def whole(x):
    """The first output is the input."""
    return x, x, torch.zeros_like(x)


def part(x):
    """The output is the input's second half, and a part beyond it."""
    memory = torch.cat([x, torch.full((96,), 7.0)])
    return memory[:192], memory[96:], torch.zeros_like(x)


def outputs_alike(x):
    y = torch.zeros_like(x)
    return x, y, y


def halves(x):
    """Two outputs that overlap by a half."""
    memory = torch.zeros(288)
    return x, memory[:192], memory[96:]


def bytes_of(x):
    """The output is the input, and the second output begins between its elements."""
    memory = torch.zeros(4 * 192 + 4, dtype=torch.uint8)
    return x, memory[:768].view(torch.float32), memory[4:].view(torch.float32)


NOTHING = "read of nothing"
# A kernel, a way to place its operands, and what checks find. None: nothing.
CASES = [
    ("doubles", apart, None),
    ("doubles", whole, None),
    ("doubles_output", apart, f"{NOTHING}: member .0. reads out0.0., which nobody"),
    ("doubles_output", whole, None),
    ("adds", apart, f"{NOTHING}: member .0. adds to out0.0., which nobody"),
    ("adds", whole, None),
    ("adds_to_first", whole, "race: member .1. stores out0.0., which member .0. reads"),
    ("sets_and_adds", apart, "race: member .1. stores out0.0., which member .0. stores too"),
    ("neighbour", apart, None),
    ("neighbour", whole, "race: member .1. stores out0.64., which member .0. reads; members run in any order"),
    ("before", whole, "race: member .1. reads in0.0., which member .0. stores; members run in any order"),
    ("both_read", whole, "race: member .2. stores out0.64., which other members read; members run in any order"),
    ("doubles", part, "race: member .1. reads in0.96., which member .0. stores"),
    ("by_address", apart, None),
    ("by_address", whole, None),
    ("two", apart, None),
    ("two", outputs_alike, None),
    ("two_crossed", apart, None),
    ("two_crossed", outputs_alike, "race: member .2. stores out0.128., which member .0. stores too"),
    ("two", halves, "race: member .1. stores out0.96., which member .0. stores too"),
    ("two", bytes_of, "race: member .1. stores out0.64., which member .0. stores too"),
    ("into_input", apart, "store into an input: member .0. stores in0.0."),
    ("into_input", whole, None),
    ("into_input", part, "store into an input: member .0. stores in0.0."),
]


def checked(kernels, name, place, guid="free", **options):
    x = torch.randn(192)
    a, b, c = place(x.clone())
    which = struct.pack("i", list(BODIES).index(name))
    return kernels.check(guid, [a], [b, c], which, **options), x, b


@pytest.mark.parametrize(("name", "place", "wanted"), CASES, ids=lambda case: getattr(case, "__name__", None))
def test_shared_memory(kernels, name, place, wanted):
    report, _, _ = checked(kernels, name, place)
    if wanted is None:
        assert report.errors == []
    else:
        assert any(re.search(wanted, error) for error in report.errors), report.errors


def test_an_output_that_is_the_input_has_its_values(kernels):
    _, x, y = checked(kernels, "doubles", whole)
    assert torch.equal(y, x * 2)
    _, x, y = checked(kernels, "adds", whole)
    assert torch.equal(y, x * 2)


def test_contents_of_an_output_may_be_read_if_the_caller_says_so(kernels):
    for name in ("doubles_output", "adds", "adds_to_first"):
        report, _, _ = checked(kernels, name, apart)
        assert any(NOTHING in error for error in report.errors)
        report, _, _ = checked(kernels, name, apart, in_place=[0])
        assert report.errors == []
    report, _, _ = checked(kernels, "adds", apart, in_place=[1])
    assert any(NOTHING in error for error in report.errors), "the other output has none"


def test_elements_that_keep_what_they_had(kernels):
    """Of an output in place they are no finding, if it is not declared complete."""
    report, _, _ = checked(kernels, "first_only", apart)
    assert any("not written: no member has stored out0[64]" in note for note in report.notes)
    report, _, _ = checked(kernels, "first_only", whole)
    assert not any("out0" in note for note in report.notes if note.startswith("not written"))
    report, _, _ = checked(kernels, "first_only", whole, "complete")
    assert any("no member has stored out0[64]" in error for error in report.errors)
    report, _, _ = checked(kernels, "halves", outputs_alike, "complete")
    assert report.errors == [], "an output's elements may be stored through the other one"


def test_the_command_takes_an_input_as_an_output(capsys):
    path = str(built(FILES, checks=True))
    given = ["check", path, "free", "-p", str(list(BODIES).index("doubles_output")), "-i", "f32[192]"]
    assert main([*given, "-o", "f32[192]", "-o", "f32[192]"]) == 1
    assert NOTHING in capsys.readouterr().out
    assert main([*given, "-o", "in0", "-o", "f32[192]"]) == 0
    assert main([*given, "-o", "in1", "-o", "f32[192]"]) == 2
    assert "'in1' is no input: there are 1, counted from in0" in capsys.readouterr().err
