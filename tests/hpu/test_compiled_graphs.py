"""Replays of captured graphs through compiled recipes."""

import pytest

_PRELUDE = """
import copy

def moved(work):
    openhpu.reset_counters()
    work()
    torch.hpu.synchronize()
    return openhpu.counters()
"""


@pytest.fixture
def run(script):
    """`script`, after _PRELUDE."""
    return lambda code, **variables: script(_PRELUDE + code, **variables)


@pytest.mark.parametrize("mode", ["0", "1"])
def test_a_replay_runs_the_recipe_and_nothing_else(run, mode):
    code = """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
x = torch.randn(5, 8)
on_hpu, given = model.to("hpu"), x.to("hpu")
g = torch.hpu.HPUGraph()
with torch.no_grad(), torch.hpu.graph(g):
    y = on_hpu(given)
assert g.describe()["recipe"]
place = y.data_ptr()
def replay():
    for _ in range(3):
        g.replay()
counters = moved(replay)
operators = g.describe()["operators"]
assert counters["ops_in_recipes"] == 3 * operators, counters
assert counters["recipe_hits"] == counters["graph_replays"] == 3
for name in ("ops_node_by_node", "ops_recorded", "ops_submitted", "ops_waited", "recipe_misses"):
    assert counters[name] == 0, (name, counters)
reference = copy.deepcopy(model).cpu()
for k in (1, 2, -1):
    given.copy_(x * k)
    g.replay()
    torch.testing.assert_close(y.cpu(), reference(x * k).detach())
assert y.data_ptr() == place
"""
    run(code, PT_HPU_LAZY_MODE=mode, OPENHPU_COMPILE="sync")


def test_wrapped_functions_use_recipes_on_other_memory(run):
    code = """
def work(x, total):
    total += x.sum()
    return x * 2 + 1, x[1:]

graphed = torch.hpu.wrap_in_hpu_graph_func(work, disable_tensor_cache=True)
kept = []
for k in range(4):
    x, total = torch.full((3,), float(k), device="hpu"), torch.tensor(10.0, device="hpu")
    counters = moved(lambda: kept.append(graphed(x, total)))
    if k:
        assert counters["recipe_hits"] == 1 and counters["ops_node_by_node"] == 0, counters
    assert total.item() == 10 + 3 * k
assert [y.tolist() for y, _ in kept] == [[2.0 * k + 1] * 3 for k in range(4)]
assert [rest.tolist() for _, rest in kept] == [[float(k)] * 2 for k in range(4)]
"""
    run(code, PT_HPU_LAZY_MODE="0", OPENHPU_COMPILE="sync")


def test_in_the_background_the_first_replays_run_one_by_one(run):
    code = """
x = torch.ones(7, device="hpu")
g = torch.hpu.HPUGraph()
with torch.hpu.graph(g):
    x.mul_(2).sub_(1)
before = moved(g.replay)
assert before["ops_node_by_node"] + before["ops_in_recipes"] == 2
assert openhpu.wait_for_recipes(200)
after = moved(g.replay)
assert (after["ops_node_by_node"], after["ops_in_recipes"]) == (0, 2)
assert x.tolist() == [1.0] * 7
"""
    run(code, OPENHPU_COMPILE="background")
