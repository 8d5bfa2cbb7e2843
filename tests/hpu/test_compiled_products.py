"""Products in recipes have the bits of eager mode's, whichever library computes them."""

import pytest
import torch

from .support import counted, product_rule

STEP = """
import torch

def step(x, w, v, bias):
    y = torch.relu(torch.addmm(bias, x, w))
    z = torch.bmm(y.view(2, 64, 96), v)
    return y.t() @ y, z, torch.baddbmm(z, y.view(2, 64, 96), v, beta=0.5, alpha=2), y @ w.t()

def operands():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=generator).to("hpu") for s in ((128, 160), (160, 96), (2, 96, 64), (96,))]
"""
EAGER = """
import openhpu
torch.save([t.cpu() for t in step(*operands())], "eager.pt")
print(openhpu.counters()["ops_recorded"])
"""


def by_rule(rule, step, operands):
    with product_rule(rule):
        return [t.cpu() for t in step(*operands)]


@pytest.mark.parametrize("rule", ["mkl", "onednn"])
def test_recipes_compute_what_eager_mode_computes(rule, script, tmp_path):
    namespace = {}
    exec(STEP, namespace)
    step = namespace["step"]
    operands = namespace["operands"]()
    for _ in range(3):
        with counted() as work:
            found = by_rule(rule, step, operands)
    assert work["recipe_hits"] > 0  # the last one was a recipe
    assert script(STEP + EAGER, PT_HPU_LAZY_MODE="0", OPENHPU_COMPILE="off", OPENHPU_PRODUCTS=rule).out == "0"
    assert all(map(torch.equal, found, torch.load(tmp_path / "eager.pt")))
    others = by_rule("mkl" if rule == "onednn" else "onednn", step, operands)
    torch.testing.assert_close(found, others, rtol=1e-4, atol=1e-3)
    a = [torch.randn(128, 128).to("hpu")]
    (one,), (other,) = (by_rule(each, lambda x: [x @ x], a) for each in ("mkl", "onednn"))
    if not torch.equal(one, other):  # this processor has both, so the recipe asked
        assert not all(map(torch.equal, found, others))
