"""torchao's quantised linear layers on hpu against the CPU, and the configurations that torchao has for CUDA alone."""

import copy
import functools
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.testing import assert_close
from torchao import quantization
from torchao.quantization import PerRow, PerTensor, qat, quantize_

from ecosystem.both import assert_same
from ecosystem.transformers.models import TEXT

DTYPES = (torch.float32, torch.bfloat16)
WEIGHT_ONLY = {
    "int8, a scale for each row": (quantization.Int8WeightOnlyConfig, {"granularity": PerRow()}),
    "int8, one scale": (quantization.Int8WeightOnlyConfig, {"granularity": PerTensor()}),
    "float8 e4m3": (quantization.Float8WeightOnlyConfig, {}),
    "float8 e5m2": (quantization.Float8WeightOnlyConfig, {"weight_dtype": torch.float8_e5m2}),
    "int4 kept in int8": (quantization.IntxWeightOnlyConfig, {"weight_dtype": torch.int4}),  # type: ignore[attr-defined]
    "int8 kept as it is": (quantization.IntxWeightOnlyConfig, {}),
}
INPUT_TOO: dict[str, tuple[type, dict[str, Any]]] = {
    "int8, int8": (quantization.Int8DynamicActivationInt8WeightConfig, {}),
    "int8, intx": (quantization.Int8DynamicActivationIntxWeightConfig, {}),
}
ALL = WEIGHT_ONLY | INPUT_TOO
# How far from the exact result, for normal numbers: what the bits are worth.
FAR = {"float8 e4m3": 0.05, "float8 e5m2": 0.1, "int4 kept in int8": 0.2}
# What each says on a machine without CUDA.
FOR_CUDA = {
    "Int4WeightOnlyConfig": (ImportError, "mslk"),
    "Float8DynamicActivationInt4WeightConfig": (ImportError, "mslk"),
    "Float8DynamicActivationFloat8WeightConfig": (AssertionError, "CUDA compute capability"),
}


def layers(dtype=torch.float32, device="cpu"):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64)).to(device, dtype).eval()


def given(dtype=torch.float32, device="cpu"):
    torch.manual_seed(1)
    return torch.randn(16, 128).to(device, dtype)


def quantised(name, dtype, device, before=False):
    """The layers with their weights quantised on the device, or `before` they are moved there."""
    kind, arguments = ALL[name]
    model = layers(dtype, "cpu" if before else device)
    quantize_(model, kind(**arguments))
    return model.to(device)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ALL)
def test_forward(name, dtype):
    with torch.no_grad():
        rtol = 1e-2 if dtype == torch.bfloat16 else 1e-4
        y = assert_same(lambda device: quantised(name, dtype, device)(given(dtype, device)), rtol=rtol, atol=rtol)
        exact = layers()(given())
    assert 0 < (y.float() - exact).norm() / exact.norm() < FAR.get(name, 0.03)


@pytest.mark.parametrize("name", ALL)
def test_weights_lie_on_the_device(name):
    """Quantised there, or moved there; its parts are what the CPU has."""
    for before in (False, True):
        weight = quantised(name, torch.float32, "hpu", before)[0].weight
        on_cpu = quantised(name, torch.float32, "cpu")[0].weight
        assert type(weight) is type(on_cpu)
        names, _ = weight.__tensor_flatten__()
        for part in names:
            found = getattr(weight, part)
            assert found.device.type == "hpu"
            assert_close(found.cpu().float(), getattr(on_cpu, part).float())


@pytest.mark.parametrize("name", ALL)
def test_compiled(name):
    with torch.no_grad():
        model = quantised(name, torch.float32, "hpu")
        plain = model(given(device="hpu"))
        compiled = torch.compile(model, backend="hpu_backend", fullgraph=True)(given(device="hpu"))
    assert_close(compiled.cpu(), plain.cpu(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", WEIGHT_ONLY)
def test_gradient_of_the_input(name):
    def gradient(device):
        x = given(device=device).requires_grad_()
        quantised(name, torch.float32, device)(x).square().sum().backward()
        return x.grad

    assert_same(gradient, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_state(name, tmp_path):
    """Saved on hpu, loaded there and on the CPU.

    To hpu with its number: torch.load gives "hpu" to a tensor that wraps others, and its parts lie on hpu:0.
    """
    with torch.no_grad():
        model = quantised(name, torch.float32, "hpu")
        torch.save(model.state_dict(), tmp_path / "state.pt")
        expected = model(given(device="hpu")).cpu()
        for device in ("hpu:0", "cpu"):
            loaded = layers(device=device)
            loaded.load_state_dict(torch.load(tmp_path / "state.pt", map_location=device), assign=True)
            assert str(loaded[0].weight.qdata.device) == device
            assert_close(loaded(given(device=device)).cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["int4 kept in int8", "int8 kept as it is"])
def test_training_for_it(name):
    """Fake quantisation while the layers are trained, then the real one."""

    def trained(device):
        kind, arguments = WEIGHT_ONLY[name]
        model = layers(device=device).train()
        quantize_(model, qat.QATConfig(kind(**arguments), step="prepare"))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        losses = []
        for _ in range(3):
            loss = model(given(device=device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        quantize_(model, qat.QATConfig(kind(**arguments), step="convert"))
        with torch.no_grad():
            return torch.stack(losses), model(given(device=device))

    losses, _ = assert_same(trained, rtol=1e-3, atol=1e-3)
    assert losses[-1] < losses[0]


def test_chosen_layers():
    """A filter and a table of names choose what is quantised."""
    model = layers(device="hpu")
    table = quantization.FqnToConfig({"0": quantization.Int8WeightOnlyConfig()})
    quantize_(model, table, filter_fn=None)
    kinds = [type(model[number].weight) for number in (0, 2)]
    assert kinds == [quantization.Int8Tensor, nn.Parameter]
    model = layers(device="hpu")
    quantize_(model, quantization.Float8WeightOnlyConfig(), filter_fn=lambda _, name: name == "2")
    kinds = [type(model[number].weight) for number in (0, 2)]
    assert kinds == [nn.Parameter, quantization.Float8Tensor]


@functools.cache
def llama():
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**TEXT)).eval()


@pytest.mark.parametrize("name", ["int8, a scale for each row", "float8 e4m3"])
def test_a_model_of_transformers(name, tmp_path):
    """A model is quantised while it is loaded onto the device, and generates what it does on the CPU."""
    kind, arguments = WEIGHT_ONLY[name]
    llama().save_pretrained(tmp_path)
    loaded = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path, quantization_config=transformers.TorchAoConfig(kind(**arguments)), device_map="hpu"
    ).eval()
    weight = loaded.model.layers[0].self_attn.q_proj.weight
    assert type(weight).__name__ in ("Int8Tensor", "Float8Tensor")
    assert weight.device.type == "hpu"
    on_cpu = copy.deepcopy(llama())
    quantize_(on_cpu, kind(**arguments), lambda module, path: isinstance(module, nn.Linear) and path != "lm_head")
    ids = torch.arange(3, 13)[None]
    with torch.no_grad():
        assert_close(loaded(ids.to("hpu")).logits.float().cpu(), on_cpu(ids).logits, rtol=1e-3, atol=1e-3)
    assert loaded.generate(ids.to("hpu"), max_new_tokens=4, do_sample=False).shape == (1, 14)


@pytest.mark.parametrize("name", FOR_CUDA)
def test_for_cuda_alone(name):
    """torchao asks for CUDA's libraries or cards, whatever the device of the weights is."""
    kind, text = FOR_CUDA[name]
    with pytest.raises(kind, match=text):
        quantize_(layers(torch.bfloat16, "hpu"), getattr(quantization, name)())
