"""Gaudi's quantiser of exported models (pt2e) with torchao's functions, against the same numbers by hand."""

import copy

import pytest
import torch
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from habana_frameworks.torch.core.quantizer import habana_quant_config_symmetric, habana_quantizer

LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 240.0, torch.float8_e5m2: 57344.0}
every_dtype = pytest.mark.parametrize("qdtype", LARGEST, ids=["int8", "e4m3", "e5m2"])


class Layers(nn.Module):
    """A layer with weights, a product of two activations, and a convolution."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 16)
        self.convolution = nn.Conv1d(4, 4, 3)

    def forward(self, x):
        hidden = torch.relu(self.linear(x))
        return self.convolution(hidden @ hidden.transpose(-1, -2) @ hidden)


def rounded(x, seen, qdtype):
    """x as `qdtype` represents it with one scale for the tensor, by the largest number of what was seen before."""
    scale = float(seen.abs().max()) / LARGEST[qdtype]
    whole = torch.round(x / scale) if qdtype is torch.int8 else (x / scale).float()
    return whole.clamp(-LARGEST[qdtype], LARGEST[qdtype]).to(qdtype).double() * scale


def by_hand(model, x, qdtype):
    """The model in float64, with both factors of each product rounded; and as it was seen before, exactly."""
    model, x = copy.deepcopy(model).double().cpu(), x.double().cpu()

    def product(operator, pairs, *more):
        found = operator(*(rounded(value, seen, qdtype) for value, seen in pairs), *more)
        return found, operator(*(seen for _, seen in pairs), *more)

    def layer(operator, pair, module):
        return product(operator, (pair, (module.weight, module.weight)), module.bias)

    hidden = tuple(map(torch.relu, layer(nn.functional.linear, (x, x), model.linear)))
    across = tuple(part.transpose(-1, -2) for part in hidden)
    square = product(torch.matmul, (hidden, across))
    return layer(nn.functional.conv1d, product(torch.matmul, (square, hidden)), model.convolution)


def quantised(qdtype):
    """A model on the device, its input, and the same model quantised after it has seen the input."""
    torch.manual_seed(0)
    model, x = Layers().eval().to("hpu"), torch.randn(2, 4, 8).to("hpu")
    exported = torch.export.export(model, (x,)).module()
    prepared = prepare_pt2e(exported, habana_quantizer().set_global(habana_quant_config_symmetric(qdtype)))
    prepared(x)
    return model, x, convert_pt2e(prepared)


@every_dtype
def test_numbers(qdtype):
    model, x, converted = quantised(qdtype)
    with torch.no_grad():
        found = converted(x).double().cpu()
        expected, exact = by_hand(model, x, qdtype)
    # A float32 beside a tie goes to the other neighbour than a float64: few numbers, by one step.
    assert (found - expected).norm() < 0.005 * exact.norm()
    assert 0.005 < (found - exact).norm() / exact.norm() < 0.2


def test_weights_are_kept_as_they_are_quantised():
    _, _, converted = quantised(torch.int8)
    kept = [buffer for _, buffer in converted.named_buffers() if buffer.dtype is torch.int8]
    assert sorted(tuple(buffer.shape) for buffer in kept) == [(4, 4, 3), (16, 8)]
    assert all(int(buffer.abs().max()) == 127 for buffer in kept)


def test_saved_and_loaded(tmp_path):
    _, x, converted = quantised(torch.float8_e4m3fn)
    torch.export.save(torch.export.export(converted, (x,)), tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    with torch.no_grad():
        assert torch.equal(loaded(x), converted(x))


def test_torch_compile():
    _, x, converted = quantised(torch.float8_e4m3fn)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(converted, backend="hpu_backend")(x), converted(x))


def test_another_dtype_is_refused():
    with pytest.raises(ValueError, match=r"symmetric: qdtype: torch.int4, expected int8, float8_e4"):
        habana_quant_config_symmetric(torch.int4)


def test_without_a_configuration():
    x = torch.randn(2, 4, 8).to("hpu")
    exported = torch.export.export(Layers().eval().to("hpu"), (x,)).module()
    with pytest.raises(RuntimeError, match=r"habana_quantizer has no configuration: call set_global"):
        prepare_pt2e(exported, habana_quantizer())
    with pytest.raises(TypeError, match=r"set_global: config: str, expected what habana_quant_config_symmetric"):
        habana_quantizer().set_global("int8")
