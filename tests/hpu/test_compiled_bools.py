"""Copies of bools in recipes."""

from .test_compiled_graphs import _PRELUDE


def test_copies_of_bools_become_part_of_a_recipe(script):
    script(
        _PRELUDE
        + """
mask = (torch.arange(48) % 3 == 0).view(6, 8)
given, kept = mask.to("hpu"), torch.zeros(8, 6, dtype=torch.bool, device="hpu")
def work():
    kept.copy_(given.t())
    return torch.where(given.clone(), 1.0, 2.0), given.t().contiguous()
work()
g = torch.hpu.HPUGraph()
with torch.hpu.graph(g):
    chosen, turned = work()
assert g.describe()["recipe"]
for step in range(2):
    given.copy_(mask if step else ~mask)
    g.replay()
    now = given.cpu()
    assert torch.equal(kept.cpu(), now.t()) and torch.equal(turned.cpu(), now.t())
    assert torch.equal(chosen.cpu(), torch.where(now, 1.0, 2.0))
"""
    )
