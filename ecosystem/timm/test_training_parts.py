"""timm's optimizers, losses, mixup and moving averages, against the CPU."""

from functools import partial

import numpy as np
import pytest
import timm
import torch
from timm.data import Mixup
from timm.loss import (
    AsymmetricLossMultiLabel,
    BinaryCrossEntropy,
    JsdCrossEntropy,
    LabelSmoothingCrossEntropy,
    SoftTargetCrossEntropy,
)
from timm.optim import create_optimizer_v2, list_optimizers
from timm.utils import ModelEmaV3
from torch.testing import assert_close

from ecosystem.both import assert_same
from ecosystem.timm.support import batch, make

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


@pytest.mark.parametrize(
    ("loss", "soft"),
    [(LabelSmoothingCrossEntropy(), False), (BinaryCrossEntropy(), False), (SoftTargetCrossEntropy(), True),
     (AsymmetricLossMultiLabel(), True), (JsdCrossEntropy(num_splits=3), False)],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else "",
)  # fmt: skip
def test_loss(loss, soft):
    torch.manual_seed(0)
    logits, classes = torch.randn(9, 5), torch.randint(5, (3 if isinstance(loss, JsdCrossEntropy) else 9,))
    targets = torch.nn.functional.one_hot(classes, 5).float() if soft else classes
    assert_close(loss.to("hpu")(logits.to("hpu"), targets.to("hpu")).cpu(), loss.to("cpu")(logits, targets))


def test_mixup():
    images, classes = batch("resnet18", rows=4)

    def mixed(device):
        np.random.seed(0)
        return Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10)(images.clone().to(device), classes.to(device))

    assert_same(mixed)


def test_moving_average():
    def averaged(device):
        model = make("resnet10t").to(device)
        average = ModelEmaV3(model, decay=0.5)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(2)
        average.update(model)
        return dict(average.module.state_dict())

    assert_same(averaged)


def test_features_only():
    images, _ = batch("resnet18")
    torch.manual_seed(0)
    model = timm.create_model("resnet18", features_only=True).eval()
    with torch.no_grad():
        assert_same(lambda device: model.to(device)(images.to(device)), rtol=1e-3, atol=1e-4)
