"""Operators by hpu_custom_op.h with kernels in TPC-C, from GC_KERNEL_PATH, in each mode; operators in place."""

import os

import pytest
import torch

from commands import ROOT
from openhpu.interface.custom_ops import user_operators
from openhpu.observe.insight import summary
from openhpu.observe.insight.collector import Collector
from tests.hpu import custom_ops
from tests.hpu.support import capture, compiled, counted
from tests.processes import clean_environment, run_code
from tests.tpc.libraries import built, make_known
from tests.tpc.test_running import main_of

EACH = (
    "for (int row = at[1]; row < at[1] + size[1]; row++) for (int k = at[0]; k < at[0] + size[0]; k++) {\n"
    "int5 p = {k * 64, row};\n"
)
TWO = "tensor self, tensor other, tensor out"
KERNELS = {
    "legacy_affine_f32": main_of(
        "volatile int stop = factor != -1.0f;\nwhile (!stop)\n;\n"  # a factor of -1 never ends
        + EACH
        + "v_f32_st_tnsr(p, out, v_f32_ld_tnsr_b(p, in) * factor + 1.0f); }",
        "tensor in, tensor out, float factor",
    ),
    "legacy_sums_f32": main_of(
        "for (int row = at[1]; row < at[1] + size[1]; row++) {\nfloat64 sum = 0;\n"
        "for (int k = 0; k < get_dim_size(in, 0); k += 64) {\nint5 p = {k, row};\nfloat64 v = v_f32_ld_tnsr_b(p, in);\n"
        "v_f32_st_tnsr(p, out, v + v);\nsum += v;\n}\n"
        "v_f32_st_tnsr_partial((int5){0, row}, total, v_f32_reduce_add(sum), 0, 0);\n}",
        "tensor in, tensor out, tensor total",
    ),
    # Both read the contents of the output; the second one stores the first block of each row only.
    "legacy_accumulate_f32": main_of(
        EACH + "v_f32_st_tnsr(p, out, v_f32_ld_tnsr_b(p, out) + v_f32_ld_tnsr_b(p, other)); }", TWO
    ),
    "legacy_count_i32": main_of(
        EACH + "if (k == 0) v_i32_st_tnsr_rmw(p, out, v_i32_ld_tnsr_b(p, other), RMW_OP_ADD | RMW_DT_INT32); }", TWO
    ),
}
TILES = 'space = ["out0[0] / 64", "out0[1]"]'
ROWS = 'space = ["1", "out0[1]"]'
DESCRIBED = "".join(
    f'[[kernel]]\nguid = "{guid}"\nsource = "{guid}.c"\ninputs = {inputs}\noutputs = {outputs}\n{rest}\n'
    for guid, inputs, outputs, rest in (
        ("legacy_affine_f32", ["f32"], ["f32"], f"{TILES}\nscalars = 1\ncomplete = true"),
        ("legacy_sums_f32", ["f32"], ["f32", "f32"], f"{ROWS}\ncomplete = true"),
        ("legacy_accumulate_f32", ["f32", "f32"], ["f32"], TILES),
        ("legacy_count_i32", ["i32", "i32"], ["i32"], TILES),
    )
)
OPS = torch.ops.openhpu_legacy


def kernels():
    return built({f"{guid}.c": text for guid, text in KERNELS.items()} | {"all.toml": DESCRIBED}, checks=True)


@pytest.fixture(scope="module", autouse=True)
def libraries():
    library = kernels()
    make_known(library)
    custom_ops.load("legacy", "habana_pytorch_plugin")
    return str(library)


def both(x):
    """Two operators with others between them: the results, and what the CPU computes."""
    doubled, sums = OPS.sums(OPS.affine(x + 1, 0.5) * 2)
    return doubled - 1, sums


def expected(x):
    inner = ((x + 1) * 0.5 + 1) * 2
    return 2 * inner - 1, inner.sum(-1, keepdim=True)


@pytest.mark.parametrize("mode", ["as the process runs", "captured", "compiled"])
def test_values(mode):
    x = torch.randn(3, 100)
    on_hpu = x.to("hpu")
    function = compiled(both, fullgraph=True) if mode == "compiled" else both
    for _ in range(2):
        results = function(on_hpu)
    if mode == "captured":
        graph, results = capture(lambda: both(on_hpu))
        x = torch.randn(3, 100)
        on_hpu.copy_(x)
        with counted(ops_submitted=0, ops_recorded=0, graph_replays=1):
            graph.replay()
            torch.hpu.synchronize()
    for mine, theirs in zip(results, expected(x), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)


def test_in_place():
    """The kernel reads what the argument had, and keeps what it does not store, also of integers of 64 bits."""
    x, y = torch.randn(3, 100), torch.randn(3, 100)
    mine = x.to("hpu")
    assert OPS.accumulate_(mine, y.to("hpu")) is mine
    assert torch.equal(mine.cpu(), x + y)
    counts = torch.arange(300).reshape(3, 100)
    mine = counts.to("hpu")
    OPS.count_(mine, torch.ones_like(mine))
    counts[:, :64] += 1
    assert torch.equal(mine.cpu(), counts)


def test_the_report_names_guid_and_library(libraries, tmp_path):
    collector = Collector(tmp_path)
    OPS.affine(torch.randn(2, 3).to("hpu"), 2.0)
    torch.hpu.synchronize()
    rows = {row["schema"]: row for row in user_operators()}
    assert rows["openhpu_legacy::affine"]["legacy"]
    assert rows["openhpu_legacy::affine"]["kernel"] == libraries
    text = summary.text([collector.document(True)], 0)
    assert "openhpu_legacy::affine (legacy_affine_f32" in text
    assert libraries in text


SCRIPT = """
import torch
import openhpu
import habana_frameworks.torch
from tests.hpu import custom_ops
from tests.hpu.support import capture, counted
from tests.tpc.test_legacy_operators import both, expected

custom_ops.load("legacy", "habana_pytorch_plugin")
ops = torch.ops.openhpu_legacy

def agree(mine, x):
    for a, b in zip(mine, expected(x), strict=True):
        torch.testing.assert_close(a.cpu(), b)

def step(x, y):
    doubled, sums = both(x)
    total = y * 2
    ops.accumulate_(total, doubled)
    return doubled, sums, total

x, y = torch.randn(3, 100), torch.randn(3, 100)
mine, other = x.to("hpu"), y.to("hpu")
for _ in range(3):
    *results, total = step(mine, other)
    torch.hpu.synchronize()
with counted(ops_node_by_node=0, ops_waited=0) as work:
    *results, total = step(mine, other)
    torch.hpu.synchronize()
assert work["recipe_hits"] == 1 and work["ops_in_recipes"] == work["ops_recorded"] > 0, work
agree(results, x)
torch.testing.assert_close(total.cpu(), y * 2 + expected(x)[0])
for _ in range(3):
    try:
        endless = ops.affine(mine, -1.0) + 1
        torch.hpu.synchronize()
    except RuntimeError as error:
        text = str(error)
        assert "openhpu_legacy::affine" in text and "'legacy_affine_f32'" in text, text
        assert "longer than its deadline, at" in text and "legacy_affine_f32.c:5" in text, text
    else:
        raise AssertionError("no error")
graph, (*results, total) = capture(lambda: step(mine, other))
assert graph.describe()["recipe"]
x = torch.randn(3, 100)
mine.copy_(x)
with counted(ops_node_by_node=0, graph_replays=1):
    graph.replay()
    torch.hpu.synchronize()
agree(results, x)
torch.testing.assert_close(total.cpu(), y * 2 + expected(x)[0])
"""


def test_lazy_mode_with_recipes(tmp_path):
    """A recipe holds the kernels and runs them with checks, which find nothing wrong with an operator in place.

    A kernel that never ends is an error of its operator, and the device goes on.
    """
    settings = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "OPENHPU_CHECK_KERNELS": "1"}
    settings["OPENHPU_KERNEL_SECONDS"] = "0.5"
    variables = clean_environment(tmp_path, GC_KERNEL_PATH=str(kernels()), **settings)
    variables["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
    run_code(SCRIPT, tmp_path, variables, "default", False)
