"""torch.profiler with recipes: each is one command, with the kernels that it calls within."""

import torch
from torch.profiler import profile

import openhpu
from tests import traces

from .test_profiler import BOTH, exported


def test_kernels_are_parts_of_their_recipe(tmp_path):
    x = torch.randn(300, 300, device="hpu")

    def step():
        y = (x @ x).relu().add(1)
        z = (y @ x).softmax(1).sum()
        return z.item()

    expected = step()
    with profile(activities=BOTH) as compiling:
        assert step() == expected
    openhpu.reset_counters()
    with profile(activities=BOTH) as prof:
        assert step() == expected
    assert openhpu.counters()["recipe_hits"] == 1
    events = exported(prof, tmp_path)
    (recipe,) = [e for e in traces.named(events, "kernel") if e["name"].startswith("recipe ")]
    parts = traces.named(events, "hpu_op")
    assert sum(e["name"].startswith("aten::mm") for e in parts) == 2
    assert any(e["name"].startswith("cpp_fused") for e in parts)
    assert all(traces.inside(e, recipe) for e in parts)
    assert sum(e["dur"] for e in parts) <= recipe["dur"]
    lookup = traces.named(events, "cuda_runtime", "hpuRecipeLookup")[-1]
    assert lookup["args"]["detail"] == "hit"
    events = exported(compiling, tmp_path)
    (wait,) = traces.named(events, "cuda_runtime", "hpuWaitForCompiler")
    (compilation,) = traces.named(events, "cuda_runtime", "hpuCompile")
    assert compilation["ts"] < wait["ts"] + wait["dur"]
    assert wait["ts"] < compilation["ts"] + compilation["dur"]


def test_a_kernel_without_a_c_function_is_among_them(tmp_path):
    x = torch.randn(1, 2, 40, 40, device="hpu")

    def step():
        smaller = torch.ops.aten.upsample_bilinear2d_backward(x * 2, [40, 40], [1, 2, 20, 20], True)
        return smaller.relu().sum().item()

    step()
    expected = step()
    openhpu.reset_counters()
    with profile(activities=BOTH) as prof:
        assert step() == expected
    assert openhpu.counters()["recipe_misses"] == 0
    parts = traces.named(exported(prof, tmp_path), "hpu_op")
    assert [e["name"] for e in parts].count("aten::upsample_bilinear2d_backward") == 1
    assert any(e["name"].startswith("cpp_fused") for e in parts)
