"""Each model forward and backward, against the CPU."""

import pytest
import torch
from torch.testing import assert_close

from ecosystem.both import same
from ecosystem.diffusers.parts import MODELS, given, make

CLOSE = {"rtol": 1e-3, "atol": 1e-4}
every_model = pytest.mark.parametrize("name", MODELS)


def result(model, name, device):
    out = model(**given(name, device), return_dict=False)[0]
    return out[0] if isinstance(out, list | tuple) else out


@every_model
def test_forward(name):
    with torch.no_grad():
        expected = result(make(name), name, "cpu")
        model = make(name).to("hpu")
        for _ in range(2):
            found = result(model, name, "hpu")
            assert found.device.type == "hpu"
            assert_close(found.cpu(), expected, **CLOSE)


@every_model
def test_backward(name):
    gradients = {}
    for device in ("cpu", "hpu"):
        model = make(name).to(device)
        result(model, name, device).square().mean().backward()
        gradients[device] = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
    assert len(gradients["cpu"]) > 5
    same(gradients["hpu"], gradients["cpu"], **CLOSE)
