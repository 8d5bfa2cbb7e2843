"""torch.profiler with recipes: each is one command, with the kernels that it calls within."""

import torch
from torch.profiler import profile

from tests import traces

from .test_profiler import BOTH, exported


def test_kernels_are_parts_of_their_recipe(tmp_path, counted):
    x = torch.randn(300, 300, device="hpu")

    def step():
        y = (x @ x).relu().add(1)
        return (y @ x).softmax(1).sum().item()

    expected = step()
    with profile(activities=BOTH) as compiling:
        assert step() == expected
    with counted(recipe_hits=1), profile(activities=BOTH) as prof:
        assert step() == expected
    events = exported(prof, tmp_path)
    (recipe,) = [e for e in traces.named(events, "kernel") if e["name"].startswith("recipe ")]
    parts = traces.named(events, "hpu_op")
    assert sum(e["name"].startswith("aten::mm") for e in parts) == 2
    assert any(e["name"].startswith("cpp_fused") for e in parts)
    assert all(traces.inside(e, recipe) for e in parts)
    assert sum(e["dur"] for e in parts) <= recipe["dur"]
    assert traces.named(events, "cuda_runtime", "hpuRecipeLookup")[-1]["args"]["detail"] == "hit"
    events = exported(compiling, tmp_path)
    (wait,) = traces.named(events, "cuda_runtime", "hpuWaitForCompiler")
    (compilation,) = traces.named(events, "cuda_runtime", "hpuCompile")
    assert compilation["ts"] < wait["ts"] + wait["dur"]
    assert wait["ts"] < compilation["ts"] + compilation["dur"]
