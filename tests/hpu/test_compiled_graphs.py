"""Replays of captured graphs through compiled recipes."""

import torch

from .support import capture, make


def test_a_replay_runs_the_recipe_and_nothing_else(counted):
    (reference, _, x, _), (model, _, given, _) = make("mlp", device="cpu"), make("mlp")
    with torch.no_grad():
        graph, y = capture(lambda: model(given))
    assert graph.describe()["recipe"]
    place = y.data_ptr()
    with counted(recipe_hits=3, graph_replays=3) as moved:
        for _ in range(3):
            graph.replay()
        torch.hpu.synchronize()
    assert moved["ops_in_recipes"] == 3 * graph.describe()["operators"]
    for name in ("ops_node_by_node", "ops_issued", "ops_waited", "recipe_misses"):
        assert moved[name] == 0, name
    for k in (1, 2, -1):
        given.copy_(x * k)
        graph.replay()
        torch.testing.assert_close(y.cpu(), reference(x * k).detach())
    assert y.data_ptr() == place


def test_copies_of_bools_become_part_of_a_recipe():
    mask = (torch.arange(48) % 3 == 0).view(6, 8)
    given = mask.to("hpu")
    kept = torch.zeros(8, 6, dtype=torch.bool, device="hpu")

    def work():
        kept.copy_(given.t())
        return torch.where(given.clone(), 1.0, 2.0), given.t().contiguous()

    work()
    graph, (chosen, turned) = capture(work)
    assert graph.describe()["recipe"]
    for now in (~mask, mask):
        given.copy_(now)
        graph.replay()
        assert torch.equal(kept.cpu(), now.t())
        assert torch.equal(turned.cpu(), now.t())
        assert torch.equal(chosen.cpu(), torch.where(now, 1.0, 2.0))


def test_in_the_background_the_first_replays_run_one_by_one(script):
    code = """
    x = torch.ones(7, device="hpu")
    g, _ = capture(lambda: x.mul_(2).sub_(1))
    with counted() as before:
        g.replay()
        torch.hpu.synchronize()
    assert before["ops_node_by_node"] + before["ops_in_recipes"] == 2
    assert openhpu.wait_for_recipes(200)
    with counted(ops_node_by_node=0, ops_in_recipes=2):
        g.replay()
        torch.hpu.synchronize()
    assert x.tolist() == [1.0] * 7
    """
    script(code, OPENHPU_COMPILE="background")
