"""Replays of captured graphs through compiled recipes."""

import copy

import torch
from torch import nn

from .support import capture


def test_a_replay_runs_the_recipe_and_nothing_else(counted):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    reference, x = copy.deepcopy(model), torch.randn(5, 8)
    on_hpu, given = model.to("hpu"), x.to("hpu")
    with torch.no_grad():
        graph, y = capture(lambda: on_hpu(given))
    assert graph.describe()["recipe"]
    place = y.data_ptr()
    with counted() as moved:
        for _ in range(3):
            graph.replay()
        torch.hpu.synchronize()
    assert moved["ops_in_recipes"] == 3 * graph.describe()["operators"]
    assert moved["recipe_hits"] == moved["graph_replays"] == 3
    for name in ("ops_node_by_node", "ops_issued", "ops_waited", "recipe_misses"):
        assert moved[name] == 0, name
    for k in (1, 2, -1):
        given.copy_(x * k)
        graph.replay()
        torch.testing.assert_close(y.cpu(), reference(x * k).detach())
    assert y.data_ptr() == place


def test_copies_of_bools_become_part_of_a_recipe():
    mask = (torch.arange(48) % 3 == 0).view(6, 8)
    given, kept = mask.to("hpu"), torch.zeros(8, 6, dtype=torch.bool, device="hpu")

    def work():
        kept.copy_(given.t())
        return torch.where(given.clone(), 1.0, 2.0), given.t().contiguous()

    work()
    graph, (chosen, turned) = capture(work)
    assert graph.describe()["recipe"]
    for now in (~mask, mask):
        given.copy_(now)
        graph.replay()
        assert torch.equal(kept.cpu(), now.t()) and torch.equal(turned.cpu(), now.t())
        assert torch.equal(chosen.cpu(), torch.where(now, 1.0, 2.0))


def test_in_the_background_the_first_replays_run_one_by_one(script):
    code = """
    x = torch.ones(7, device="hpu")
    g = torch.hpu.HPUGraph()
    with torch.hpu.graph(g):
        x.mul_(2).sub_(1)
    def ran():
        openhpu.reset_counters()
        g.replay()
        torch.hpu.synchronize()
        return openhpu.counters()["ops_node_by_node"], openhpu.counters()["ops_in_recipes"]
    assert sum(ran()) == 2
    assert openhpu.wait_for_recipes(200)
    assert ran() == (0, 2)
    assert x.tolist() == [1.0] * 7
    """
    script(code, OPENHPU_COMPILE="background")
