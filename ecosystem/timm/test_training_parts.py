"""timm's optimizers, losses, mixup and moving averages, against the CPU."""

from functools import partial

import pytest
import torch
from timm.optim import create_optimizer_v2, list_optimizers
from torch.testing import assert_close

# bnb* and fused* need other packages; lookahead and the like come with each.
OPTIMIZERS = [name for name in list_optimizers() if not name.startswith(("bnb", "fused"))]


@pytest.fixture
def drawn_on_the_cpu(monkeypatch):
    """Some optimizers draw on their parameters' device, whose random numbers are others: here they are the CPU's."""
    for draw in ("randint", "randn"):
        monkeypatch.setattr(torch, draw, partial(from_the_cpu, getattr(torch, draw)))


def from_the_cpu(draw, *args, generator=None, device=None, **kwargs):
    return draw(*args, **kwargs).to(device or "cpu")


def trained(name, device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).to(device)
    optimizer = create_optimizer_v2(model, opt=name, lr=1e-2, weight_decay=1e-2)
    x, y = torch.randn(16, 6).to(device), torch.randn(16, 3).to(device)

    def closure():
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward(create_graph=name == "adahessian")
        return loss

    torch.manual_seed(2)
    for _ in range(4):
        if name == "adahessian":
            closure()
            optimizer.step()
        else:
            optimizer.step(closure)
    return torch.cat([p.detach().cpu().flatten() for p in model.parameters()])


@pytest.mark.usefixtures("drawn_on_the_cpu")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name):
    assert_close(trained(name, "hpu"), trained(name, "cpu"), rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("drawn_on_the_cpu")
@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name.startswith("kron")])
def test_optimizer_that_compiles(name, monkeypatch):
    """With the backend that a script for hpu names; timm names none, and Inductor has no code for hpu."""
    expected = trained(name, "cpu")
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="hpu_backend"))
    assert_close(trained(name, "hpu"), expected, rtol=1e-3, atol=1e-4)
