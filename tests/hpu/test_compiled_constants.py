"""Recipes that hold an inference graph's weights."""


def test_a_recipe_with_weights_and_the_one_after_a_write(script):
    script(
        """
import copy
import torch, openhpu
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 16), nn.GELU(), nn.Linear(16, 4)
).eval()
with torch.no_grad():
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
reference, model = copy.deepcopy(model), model.to("hpu")
x = torch.randn(4, 3, 8, 8)
given = x.to("hpu")
wrapped = torch.hpu.wrap_in_hpu_graph(model)

def check(k):
    with torch.no_grad():
        result, expected = wrapped(given * k), reference(x * k)
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)

check(1.0)
openhpu.reset_counters()
check(2.0)
check(-1.0)
counters = openhpu.counters()
assert counters["graph_replays"] == 2 and counters["recipe_misses"] == 0, counters
assert len(openhpu.recipes()) == 1 + 1, openhpu.recipes()  # the model's, and given * k
with torch.no_grad():
    for m in (model, reference):
        m[0].weight.mul_(2)
        m[6].bias.add_(1)
check(1.0)
check(0.5)
""",
        PT_HPU_LAZY_MODE="1",
        OPENHPU_COMPILE="sync",
        PT_HPU_RECIPE_CACHE_CONFIG="",
    )


def test_constant_sections_are_shared_by_recipes(script, tmp_path):
    script(
        f"""
import hashlib
from pathlib import Path
import torch, openhpu
from openhpu.interface import inference

folder = Path({str(tmp_path / "sections")!r})
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)).to("hpu").eval()
model.requires_grad_(False)
inference.mark_params_as_const(model)

def sections():
    return {{f.name: f.stat().st_mtime_ns for f in folder.iterdir()}}

def check(x):
    x = x.to("hpu")
    graph = torch.hpu.HPUGraph()
    with torch.no_grad(), torch.hpu.graph(graph):
        y = model(x)
    for _ in range(2):
        graph.replay()
        expected = torch.nn.functional.linear(
            torch.nn.functional.linear(x.cpu(), model[0].weight.cpu(), model[0].bias.cpu()).relu(),
            model[2].weight.cpu(), model[2].bias.cpu(),
        )
        torch.testing.assert_close(y.cpu(), expected, rtol=1e-5, atol=1e-6)
    return graph

torch.hpu.enable_const_section_serialization(str(folder))
check(torch.randn(3, 8))
one = sections()
contents = {{hashlib.sha256(p.cpu().numpy().tobytes()).hexdigest() for p in model.parameters()}}
assert {{name.partition(".")[0] for name in one}} == contents and len(one) == 4, one
check(torch.randn(5, 8))
assert sections() == one  # shared
assert openhpu.counters()["ops_in_recipes"] > 0
""",
        OPENHPU_COMPILE="sync",
        PT_HPU_LAZY_MODE="0",
    )
