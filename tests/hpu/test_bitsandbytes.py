"""bitsandbytes: 4-bit weights (nf4) through its own path for hpu, and a QLoRA training on them."""

import importlib.util
import sys
from pathlib import Path

import pytest

DOWNLOADED = Path(sys.prefix) / "bitsandbytes"  # by `make test`

SCRIPT = f"""
    import sys
    sys.path.append({str(DOWNLOADED)!r})
    import torch
    import bitsandbytes, openhpu
    from bitsandbytes import functional, nn
    from openhpu import events
    torch.manual_seed(0)
"""

WEIGHTS = """
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        weight = torch.randn(64, 96).to(dtype)
        expected, state = functional.quantize_4bit(weight, quant_type="nf4", blocksize=64)
        codes, on_device = functional.quantize_4bit(weight.to("hpu"), quant_type="nf4", blocksize=64)
        assert torch.equal(codes.cpu().flatten(), expected.flatten())
        assert torch.equal(on_device.absmax.cpu(), state.absmax)
        again = functional.dequantize_4bit(codes, on_device)
        assert again.device.type == "hpu" and again.dtype is dtype
        # Another formula: the nearest of the sixteen numbers, times the largest of the block.
        blocks = weight.double().reshape(-1, 64)
        largest = blocks.abs().amax(1, keepdim=True)
        numbers = functional.get_4bit_type("nf4", device="cpu").double()
        nearest = numbers[(blocks[..., None] / largest[..., None] - numbers).abs().argmin(-1)] * largest
        torch.testing.assert_close(again.cpu(), nearest.reshape(64, 96).to(dtype))
    print(events.fallback_ops())
"""

TRAINING = """
    base = nn.Linear4bit(32, 16, compute_dtype=torch.float32, quant_type="nf4", compress_statistics=True).to("hpu")
    base.requires_grad_(False)
    assert base.weight.dtype is torch.uint8 and base.weight.numel() == 32 * 16 // 2
    frozen = base.weight.data.clone()  # .cpu() of the parameter would move its scales as well
    down, up = torch.nn.Linear(32, 4, bias=False).to("hpu"), torch.nn.Linear(4, 16, bias=False).to("hpu")
    torch.nn.init.zeros_(up.weight)
    optimizer = torch.optim.AdamW([*down.parameters(), *up.parameters()], lr=2e-2)

    def model(x):
        return base(x) + up(down(x))

    x, target = torch.randn(64, 32, device="hpu"), torch.randn(64, 16, device="hpu")
    losses = []
    for step in range(20):
        loss = (model(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0], losses
    assert torch.equal(base.weight.data, frozen)
    plain = functional.dequantize_4bit(base.weight, base.weight.quant_state).cpu()
    expected = torch.nn.functional.linear(x.cpu(), plain, base.bias.cpu())
    expected = expected + x.cpu() @ down.weight.cpu().t() @ up.weight.cpu().t()
    torch.testing.assert_close(model(x).cpu(), expected, rtol=1e-4, atol=1e-4)
    compiled = torch.compile(model, backend="hpu_backend")
    for repetition in range(2):
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    print(events.fallback_ops())
"""


@pytest.fixture(scope="module", autouse=True)
def installed():
    if not DOWNLOADED.exists() and importlib.util.find_spec("bitsandbytes") is None:
        pytest.skip("bitsandbytes is not installed; `make test` downloads it")


def test_weights_of_four_bits(script):
    assert script(SCRIPT + WEIGHTS, warnings="default").out == "{}"


def test_a_training_of_adapters_on_frozen_four_bit_weights(script):
    assert script(SCRIPT + TRAINING, warnings="default").out == "{}"
