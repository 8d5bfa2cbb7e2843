"""Each architecture forward and backward against the CPU."""

import tomllib
from pathlib import Path

import pytest
import timm
import torch
from torch.testing import assert_close

CLASSES = 10
SMALL_IMAGE = 64  # this one is quick
TABLE = tomllib.loads(Path(__file__).with_name("architectures.toml").read_text())
ARCHITECTURES = [*TABLE["convolutional"], *TABLE["own_size"]]

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
# Float32's rounding over a hundred layers.
CLOSE = {"rtol": 1e-3, "atol": 1e-4}


def make(name):
    """The model on the CPU, with random weights, the same each time."""
    torch.manual_seed(0)
    return timm.create_model(name, pretrained=False, num_classes=CLASSES)


def batch(name, rows=2):
    """Images and their classes, on the CPU, the same each time."""
    torch.manual_seed(1)
    size = SMALL_IMAGE if name in TABLE["convolutional"] else timm.get_pretrained_cfg(name).input_size[-1]
    return torch.randn(rows, 3, size, size), torch.randint(CLASSES, (rows,))


@every_architecture
def test_inference(name):
    images, _ = batch(name)
    model = make(name).eval()
    with torch.no_grad():
        expected = model(images)
        model.to("hpu")
        for _ in range(2):
            found = model(images.to("hpu"))
    assert found.device.type == "hpu"
    assert_close(found.cpu(), expected, **CLOSE)


def without_chance(model):
    """The model without dropouts: some architectures have them unasked, and a device's random numbers are its own."""
    for module in model.modules():
        for rate in {"p", "drop_prob", "drop_rate"} & vars(module).keys():
            setattr(module, rate, 0.0)
    return model


def step(name, device):
    """Loss, gradients and the buffers of a training step (normalisation by the batch)."""
    images, classes = (tensor.to(device) for tensor in batch(name, rows=4))
    model = without_chance(make(name)).to(device).train()
    loss = torch.nn.functional.cross_entropy(model(images), classes)
    loss.backward()
    gradients = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach().cpu(), gradients, {name: b.cpu() for name, b in model.named_buffers()}


def relative(found, expected, whole):
    """The difference as a share of the gradient, or of a thousandth of all of it where this one is next to nothing."""
    return float((found - expected).norm() / max(expected.norm(), 1e-3 * whole))


@every_architecture
def test_training_step(name):
    loss, gradients, buffers = step(name, "hpu")
    cpu_loss, cpu_gradients, cpu_buffers = step(name, "cpu")
    assert_close(loss, cpu_loss, **CLOSE)
    assert gradients.keys() == cpu_gradients.keys()
    assert len(gradients) > 5
    whole = torch.stack([g.norm() for g in cpu_gradients.values()]).norm()
    far = {key: relative(gradients[key], cpu_gradients[key], whole) for key in gradients}
    assert max(far.values()) < 5e-3, sorted(far.items(), key=lambda item: -item[1])[:5]
    assert_close(buffers, cpu_buffers, **CLOSE)
