"""Training steps of a script in lazy mode, each mode in a process of its own: same numbers, one compilation."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

_ROOT = Path(__file__).parents[4]

_DROPOUT = """
import json, sys
import torch
import openhpu
import habana_frameworks.torch.core as htcore
from torch import nn
torch.manual_seed(0)
layers = [nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 64), nn.Dropout(0.1), nn.Linear(64, 4)]
model = nn.Sequential(*layers).to("hpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 16).to("hpu"), torch.randint(4, (32,)).to("hpu")
ones = torch.ones(200, 40, device="hpu")
masks, losses = [], []
for step in range(20):
    if step == 10:
        before = openhpu.counters()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    mask = nn.functional.dropout(ones, 0.3) + torch.rand_like(ones) + torch.randn_like(ones)
    htcore.mark_step()
    masks.append(mask)
    losses.append(loss.detach())
htcore.mark_step()
after = openhpu.counters()
counters = {name: after.get(name, 0) - before.get(name, 0) for name in ("ops_recorded", "ops_in_recipes")}
torch.save([[m.cpu() for m in masks], [l.cpu() for l in losses]], sys.argv[2])
counters |= {"compiled": after.get("recipes_compiled", 0), "recompilations": len(openhpu.recompilations())}
print(json.dumps(counters))
"""


def run(script, lazy, folder):
    """What the script prints, as JSON, and what it saves."""
    saved = folder / f"saved{lazy}"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)]),
        "PT_HPU_LAZY_MODE": str(lazy),
        "OPENHPU_COMPILE": "sync",
        "OPENHPU_MODULE_LOCKS": "0",
        "PT_HPU_RECIPE_CACHE_CONFIG": f"{folder / 'cache'},false,1024",
    }
    command = [sys.executable, "-c", script, str(lazy), str(saved)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1]), torch.load(saved)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lazy")


def test_dropout_compiles_once_and_draws_what_eager_draws(folder):
    _, (masks, losses) = run(_DROPOUT, 0, folder)
    found, (lazy_masks, lazy_losses) = run(_DROPOUT, 1, folder)
    assert not any(torch.equal(a, b) for a, b in itertools.pairwise(masks))
    for ours, theirs in zip(lazy_masks, masks, strict=True):
        assert torch.equal(ours, theirs)
    torch.testing.assert_close(torch.stack(lazy_losses), torch.stack(losses), rtol=1e-5, atol=1e-6)
    assert found["ops_in_recipes"] >= 0.99 * found["ops_recorded"] > 100
    assert found["compiled"] <= 3  # the first step also moves the model
    assert found["recompilations"] == 0
