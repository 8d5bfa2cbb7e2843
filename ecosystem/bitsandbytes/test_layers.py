"""Quantised layers, functions and optimizers of bitsandbytes on hpu against the CPU."""

import bitsandbytes as bnb
import bitsandbytes.functional as F
import pytest
import torch
import transformers
from torch.testing import assert_close

from ecosystem.both import assert_same

KINDS = ("nf4", "fp4")
DTYPES = (torch.float32, torch.bfloat16)


def weights(rows=64, columns=128, dtype=torch.float32):
    torch.manual_seed(0)
    return (torch.randn(rows, columns) * 0.1).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("block", [64, 128])
@pytest.mark.parametrize("kind", KINDS)
def test_four_bits(kind, block, dtype):
    found, state = F.quantize_4bit(weights(dtype=dtype).to("hpu"), blocksize=block, quant_type=kind)
    expected, cpu_state = F.quantize_4bit(weights(dtype=dtype), blocksize=block, quant_type=kind)
    assert found.device.type == "hpu"
    assert (found.cpu() == expected).float().mean() > 0.995  # what lies between two steps may fall to either
    assert_close(state.absmax.cpu(), cpu_state.absmax)
    back, cpu_back = F.dequantize_4bit(expected.to("hpu"), state), F.dequantize_4bit(expected, cpu_state)
    assert back.dtype == dtype
    assert_close(back.cpu(), cpu_back, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-3)


@pytest.mark.parametrize("block", [64, 256])
def test_eight_bits_by_blocks(block):
    found, state = F.quantize_blockwise(weights().to("hpu"), blocksize=block)
    expected, cpu_state = F.quantize_blockwise(weights(), blocksize=block)
    assert ((found.cpu().int() - expected.int()).abs() <= 1).float().mean() > 0.99
    assert_close(F.dequantize_blockwise(expected.to("hpu"), state).cpu(), F.dequantize_blockwise(expected, cpu_state))


@pytest.mark.parametrize("nested", [False, True], ids=["", "nested"])
@pytest.mark.parametrize("kind", KINDS)
def test_linear_four_bits(kind, nested):
    """Forward and the gradient of the input: the weights are kept in four bits."""

    def results(device):
        layer = bnb.nn.Linear4bit(128, 64, quant_type=kind, compress_statistics=nested, compute_dtype=torch.float32)
        layer.weight = bnb.nn.Params4bit(weights(), requires_grad=False, quant_type=kind, compress_statistics=nested)
        layer.bias.data.zero_()
        layer = layer.to(device)
        assert layer.weight.dtype == torch.uint8
        assert layer.weight.device.type == device
        torch.manual_seed(1)
        x = torch.randn(8, 128).to(device).requires_grad_()
        y = layer(x)
        y.square().sum().backward()
        return y.detach(), x.grad

    y, _ = assert_same(results, rtol=1e-3, atol=1e-3)
    torch.manual_seed(1)
    exact = torch.randn(8, 128) @ weights().T
    assert (y - exact).norm() / exact.norm() < 0.2


@pytest.mark.parametrize("threshold", [0.0, 6.0])
def test_linear_eight_bits(threshold):
    """Far from the exact result by what eight bits are worth; on the CPU the library keeps the input as it is."""
    far = {}
    for device in ("cpu", "hpu"):
        layer = bnb.nn.Linear8bitLt(128, 64, has_fp16_weights=False, threshold=threshold)
        layer.weight = bnb.nn.Int8Params(weights(), requires_grad=False, has_fp16_weights=False)
        layer.bias.data.zero_()
        layer = layer.to(device)
        assert layer.weight.dtype == torch.int8
        assert layer.weight.device.type == device
        torch.manual_seed(1)
        x = torch.randn(8, 128)
        x[:, 5] *= 20  # an outlier, which the threshold keeps in more bits
        exact = x @ weights().T
        far[device] = float((layer(x.to(device)).detach().float().cpu() - exact).norm() / exact.norm())
    assert far["cpu"] <= far["hpu"] < (0.04 if threshold == 0 else 0.015), far


@pytest.mark.parametrize("kind", ["4 bits", "8 bits"])
def test_a_model_of_transformers(kind, tmp_path):
    """A model is quantised while it is loaded onto the device, and generates."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, pad_token_id=0
    )
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    four = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.float32}
    quantised = transformers.BitsAndBytesConfig(**(four if kind == "4 bits" else {"load_in_8bit": True}))
    loaded = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path, quantization_config=quantised, device_map="hpu"
    ).eval()
    ids = torch.arange(3, 13)[None]
    with torch.no_grad():
        found = loaded(ids.to("hpu")).logits.float().cpu()
        expected = model(ids).logits
    assert (found - expected).norm() / expected.norm() < 0.2
    assert loaded.generate(ids.to("hpu"), max_new_tokens=4, do_sample=False).shape == (1, 14)
    layer = loaded.model.layers[0].self_attn.q_proj
    assert layer.weight.dtype == (torch.uint8 if kind == "4 bits" else torch.int8)


@pytest.mark.parametrize("name", ["Embedding4bit", "EmbeddingNF4", "Embedding8bit"])
def test_embeddings(name):
    def embedded(device):
        torch.manual_seed(0)
        layer = getattr(bnb.nn, name)(32, 64)
        with torch.no_grad():
            layer.weight.copy_(torch.randn(32, 64))
        return layer.to(device)(torch.arange(8, device=device)).detach().float()

    assert_same(embedded, rtol=1e-3, atol=1e-3)
