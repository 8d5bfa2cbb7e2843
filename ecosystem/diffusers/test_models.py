"""Each model forward, backward, saved and loaded, against the CPU."""

import pytest
import torch
from torch.testing import assert_close

from ecosystem.diffusers.parts import MODELS, given, make

CLOSE = {"rtol": 1e-3, "atol": 1e-4}
every_model = pytest.mark.parametrize("name", MODELS)


def result(model, name, device):
    out = model(**given(name, device), return_dict=False)[0]
    return out[0] if isinstance(out, list | tuple) else out


@every_model
def test_forward(name):
    with torch.no_grad():
        expected, model = result(make(name), name, "cpu"), make(name).to("hpu")
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
        gradients[device] = {key: p.grad.cpu() for key, p in model.named_parameters() if p.grad is not None}
    assert len(gradients["cpu"]) > 5
    for key, value in gradients["cpu"].items():
        scale = max(float(value.abs().max()), 1.0)
        assert_close(
            gradients["hpu"][key], value, rtol=1e-3, atol=1e-4 * scale, msg=lambda text, key=key: f"{key}: {text}"
        )


@every_model
def test_save_and_load(name, tmp_path):
    with torch.no_grad():
        model = make(name).to("hpu")
        expected = result(model, name, "hpu").cpu()
        model.save_pretrained(tmp_path)
        loaded = type(model).from_pretrained(tmp_path).to("hpu").eval()
        assert_close(result(loaded, name, "hpu").cpu(), expected, rtol=0, atol=0)


@every_model
def test_gradient_checkpointing(name):
    model = make(name).to("hpu")
    if not model._supports_gradient_checkpointing:
        pytest.skip("the model has none")
    if name == "AutoencoderTiny":
        pytest.skip("its gradients are others with checkpoints, on the CPU as well")
    gradients = []
    for checkpointed in (False, True):
        if checkpointed:
            model.enable_gradient_checkpointing()
        model.train()
        model.zero_grad()
        torch.manual_seed(2)  # of what is dropped
        result(model, name, "hpu").square().mean().backward()
        gradients.append([p.grad.cpu() for p in model.parameters() if p.grad is not None])
    assert_close(gradients[1], gradients[0], **CLOSE)
