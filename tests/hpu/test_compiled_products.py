"""Products in recipes have the bits of eager mode's, whichever library computes them."""

import pytest
import torch

import openhpu
from openhpu import _C


@pytest.mark.parametrize("rule", ["mkl", "onednn"])
def test_recipes_compute_what_nodes_compute(rule):
    def step(x, w, v, bias):
        y = torch.relu(torch.addmm(bias, x, w))
        z = torch.bmm(y.view(2, 64, 96), v).sum(-1)
        return y.t() @ y, torch.baddbmm(z.unsqueeze(-1), y.view(2, 64, 96), v, beta=0.5, alpha=2), y @ w.t()

    generator = torch.Generator().manual_seed(0)
    sizes = ((128, 160), (160, 96), (2, 96, 64), (96,))
    operands = [torch.randn(s, generator=generator).to("hpu") for s in sizes]
    _C.set_product_rule(rule)
    try:
        found = []
        for _ in range(3):
            before = openhpu.counters()["recipe_hits"]
            found.append([t.cpu() for t in step(*operands)])
        assert openhpu.counters()["recipe_hits"] > before  # the last one was a recipe
        _C.set_product_rule("mkl" if rule == "onednn" else "onednn")
        other = [t.cpu() for t in step(*operands)]
        _C.set_product_rule(rule)
        with torch.no_grad():
            nodes = [t.cpu() for t in _by_nodes(step, operands)]
    finally:
        _C.set_product_rule("auto")
    for recipe, again, node, others in zip(found[1], found[2], nodes, other, strict=True):
        assert torch.equal(recipe, again) and torch.equal(recipe, node)
        torch.testing.assert_close(recipe, others, rtol=1e-4, atol=1e-3)
    if _has_both():
        assert any(not torch.equal(a, b) for a, b in zip(found[2], other, strict=True))  # the recipe asked the rule


def _by_nodes(step, operands):
    """Operator by operator: each result is read before the next one is recorded."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Cut(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            torch.hpu.synchronize()
            return result

    with Cut():
        return step(*operands)


def _has_both():
    a = torch.randn(128, 128, device="hpu")
    found = []
    for rule in ("mkl", "onednn"):
        _C.set_product_rule(rule)
        found.append((a @ a).cpu())
    _C.set_product_rule("auto")
    return not torch.equal(*found)
