"""Forward and backward of each model of the table, against the CPU."""

import pytest
import torch

from ecosystem.both import assert_same, same
from ecosystem.transformers.models import MODELS
from ecosystem.transformers.support import CLOSE, arguments, make, tensors

every_model = pytest.mark.parametrize("model", MODELS, ids=[model.key for model in MODELS])


@every_model
def test_forward(model):
    with torch.no_grad():
        expected = tensors(make(model)(**arguments(model, "cpu")))
        on_device = make(model).to("hpu")
        for _ in range(2):  # learned, then submitted or recorded without waiting
            same(tensors(on_device(**arguments(model, "hpu"))), expected, **CLOSE)
    assert expected["loss"].isfinite()


@every_model
def test_backward(model):
    gradients = {}
    for device in ("cpu", "hpu"):
        made = make(model).to(device)
        for _ in range(2):
            made.zero_grad()
            made(**arguments(model, device))["loss"].backward()
        gradients[device] = {name: p.grad for name, p in made.named_parameters() if p.grad is not None}
    assert len(gradients["cpu"]) > 5
    same(gradients["hpu"], gradients["cpu"], **CLOSE)


@every_model
def test_bfloat16_under_autocast(model):
    def loss(device):
        with torch.no_grad(), torch.autocast(device, torch.bfloat16):
            return make(model).to(device)(**arguments(model, device))["loss"].float()

    assert_same(loss, rtol=0.05, atol=0.05)  # the two devices' lists of operators differ
