"""The runner: padding, parts of the index space, strides, and kernels that have to be ended."""

import signal

import pytest
import torch

from openhpu_tpc.loading import KernelError
from tests.tpc.libraries import library


def description(*guids, inputs=1, outputs=1, space='["out0[0] / 64", "out0[1]"]', kind="f32"):
    return "".join(
        f'[[kernel]]\nguid = "{guid}"\nsource = "{guid}.c"\ninputs = {[kind] * inputs}\noutputs = {[kind] * outputs}\n'
        f"space = {space}\n"
        for guid in guids
    )


def main_of(body, parameters="tensor in, tensor out"):
    return (
        f"void main({parameters})\n{{\nint5 at = get_index_space_offset(), size = get_index_space_size();\n{body}\n}}\n"
    )


EACH = "for (int row = at[1]; row < at[1] + size[1]; row++) for (int k = at[0]; k < at[0] + size[0]; k++) {"
SOURCES = {
    "padding.c": main_of(
        "set_pad_value_float(in, 7.0f);" + EACH + "int5 p = {k * 64 - 32, row - 1};"
        "v_f32_st_tnsr((int5){k * 64, row}, out, v_f32_ld_tnsr_b(p, in)); }"
    ),
    "partial.c": main_of(
        EACH + "float64 v = v_f32_ld_tnsr_partial_b((int5){1, row}, in, 2, 4, 0, (float64)-1);"
        "v_f32_st_tnsr((int5){k * 64, row}, out, v); v_f32_st_tnsr_partial((int5){-1, row}, out, v, 3, 4); }"
    ),
    "endless.c": main_of("volatile int stop = 0;\nwhile (!stop)\n;\n"),
    "dead.c": main_of("volatile float* nowhere = (float*)16;\n*nowhere = 1;\n"),
    "zero.c": main_of("volatile int zero = 0;\nvolatile int r = 7 / zero;\n"),
    "deep.c": "// Calls itself for ever.\n\nint deep(volatile int* p, int n) { volatile int k[64]; k[0] = n; "
    "return deep(k, n + 1) + k[0]; }\n" + main_of("volatile int r = deep((volatile int*)0, 0);\n"),
    "absent.c": main_of("v_f32_st_tnsr(at, (tensor)5, (float64)1);"),
    "counting.c": main_of(
        EACH + "v_f32_st_tnsr_rmw((int5){0}, out, (float64)1, RMW_OP_ADD | RMW_DT_FP32);"
        "s_f32_st_g(gen_addr((int5){64, 0}, out), v_f32_ld_tnsr_b((int5){0}, in)[0]); }"
    ),
    "random.c": main_of(
        EACH + "write_lfsr_s(7 + row); int64 a = (int64)read_lfsr_b(SW_READ_ONLY); int64 b = (int64)read_lfsr_b();"
        "int64 c = (int64)read_lfsr_b(); bool64 alike = a == b; float64 v = alike ? (float64)1 : (float64)0;"
        "v = (b != c) ? v : (float64)0; v = s_read_lfsr() == 7 + row ? v : (float64)0;"
        "write_lfsr_b((char256)a); v = ((int64)read_lfsr_b() == a) ? v : (float64)0;"
        "v_f32_st_tnsr((int5){k * 64, row}, out, v + v_convert_i32_to_f32_b(c & 1)); }"
    ),
    "flushed.c": main_of(EACH + "int5 p = {k * 64, row}; v_f32_st_tnsr(p, out, v_f32_ld_tnsr_b(p, in) * 2.0f); }"),
}


@pytest.fixture(scope="module")
def kernels():
    return library(SOURCES | {"all.toml": description(*(name[:-2] for name in SOURCES))})


def test_reads_outside_give_the_padding(kernels):
    x = torch.arange(300.0).reshape(3, 100)
    y = torch.zeros(3, 100)
    kernels.run("padding", [x], [y], pieces=4)
    wanted = torch.full((3, 100), 7.0)
    wanted[1:, 32:] = x[:2, :68]
    assert torch.equal(y, wanted)


def test_parts_of_registers(kernels):
    x = torch.arange(64.0).reshape(1, 64)
    y = torch.zeros(1, 64)
    kernels.run("partial", [x], [y])
    wanted = torch.full((1, 64), -1.0)
    wanted[0, 4:7] = torch.tensor([1.0, 2.0, 3.0])
    wanted[0, :3] = torch.tensor([2.0, 3.0, -1.0])
    assert torch.equal(y, wanted)


def test_strides_of_outer_dimensions(kernels):
    x = torch.arange(600.0).reshape(2, 3, 100).transpose(0, 1)[1]
    y = torch.zeros(2, 200)[:, :100]
    kernels.run("flushed", [x], [y])
    assert torch.equal(y, 2 * x)


def test_numbers_that_are_not_normal_are_zero(kernels):
    x = torch.full((1, 64), 1e-40)
    y = torch.ones(1, 64)
    kernels.run("flushed", [x], [y])
    assert torch.equal(y, torch.zeros(1, 64))
    assert torch.full((1,), 1e-40).mul(1).item() > 0, "the mode of the caller's thread is as before"


def test_random_numbers_move_on_and_can_be_set(kernels):
    x, y = torch.zeros(1, 64), torch.zeros(9, 64)
    kernels.run("random", [x], [y], pieces=9)
    assert set(y.unique().tolist()) == {1.0, 2.0}
    assert not torch.equal(y[0], y[1]), "each part of the index space has its own"


def test_members_add_to_one_element(kernels):
    x, y = torch.full((1, 64), 3.0), torch.zeros(9, 64)
    kernels.run("counting", [x], [y], pieces=9)
    assert torch.equal(y[0], torch.full((64,), 9.0))
    assert not y[1:].any(), "an address outside is not written"


@pytest.mark.parametrize(
    ("guid", "seconds", "message"),
    [
        ("endless", 0.3, r"the kernel endless .*longer than its deadline, at .*endless.c:[456]; its part.*at \(0, 0\)"),
        ("dead", 30, r"the kernel dead .*used an address outside its tensors, at .*dead.c:5"),
        ("zero", 30, r"the kernel zero .*divided by zero, at .*zero.c:5"),
        ("deep", 30, r"the kernel deep .*used an address outside its tensors, at .*deep.c:3"),
        ("absent", 30, r"the kernel absent .*uses tensor 5, which the node does not have"),
    ],
)
def test_kernels_that_are_ended(kernels, guid, seconds, message):
    x, y = torch.zeros(1, 64), torch.zeros(1, 64)
    with pytest.raises(KernelError, match=message):
        kernels.run(guid, [x], [y], seconds=seconds)
    kernels.run("flushed", [x], [y])


def test_the_deadline_holds_on_a_thread_that_blocks_signals(kernels):
    """A thread of the device does."""
    x, y = torch.zeros(1, 64), torch.zeros(1, 64)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with pytest.raises(KernelError, match="longer than its deadline"):
            kernels.run("endless", [x], [y], seconds=0.3)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


BYTES = {
    "u8_unpack.c": main_of(
        "uchar256 v = v_u8_ld_tnsr_b((int5){at[0] * 256}, in, SW_UNPACK | SW_UNPCK_8_TO_16);"
        "v_u8_st_tnsr((int5){at[0] * 256}, out, (uchar256)((ushort128)v * 2), SW_PACK | SW_PCK_16_TO_8);"
    )
}


def test_loads_unpack_and_stores_pack():
    loaded = library(BYTES | {"all.toml": description("u8_unpack", kind="u8", space='["out0[0] / 256"]')})
    x, y = torch.arange(100, dtype=torch.uint8), torch.zeros(100, dtype=torch.uint8)
    loaded.run("u8_unpack", [x], [y])
    assert torch.equal(y, x * 2)
