"""Training in fp8: tensors are rounded to fp8, with scales from the steps before."""

import torch
from torch.utils.checkpoint import checkpoint

from openhpu.interface.hpex import transformer_engine as te
from tests.hpu.support import causal, close, exact_attention

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def rounded(x, scale, dtype, limit):
    return (x.double() * scale).clamp(-limit, limit).to(dtype).double() / scale


def test_products_are_of_fp8_operands_with_delayed_scales():
    layer = te.Linear(8, 4).to("hpu")
    w, b = layer.weight.detach().cpu(), layer.bias.detach().cpu()
    recipe = te.DelayedScaling(amax_history_len=2, amax_compute_algo="max")
    maxima = []
    for step in range(4):
        x = torch.randn(5, 8) * (step + 1)
        grad = torch.randn(5, 4)
        on_hpu = x.to("hpu").requires_grad_()
        with te.fp8_autocast(fp8_recipe=recipe):
            y = layer(on_hpu)
        layer.weight.grad = layer.bias.grad = None
        y.backward(grad.to("hpu"))
        last = maxima[-2:]
        scales = [240 / max(m[i] for m in last) if last else 1.0 for i in (0, 1)]
        grad_scale = 57344 / max(m[2] for m in last) if last else 1.0
        x8, w8 = rounded(x, scales[0], E4M3, 240), rounded(w, scales[1], E4M3, 240)
        g8 = rounded(grad, grad_scale, E5M2, 57344)
        assert not torch.allclose(y.detach().cpu().double(), x.double() @ w.double().t() + b.double(), rtol=1e-4)
        found = [y, on_hpu.grad, layer.weight.grad, layer.bias.grad]
        close(found, [x8 @ w8.t() + b.double(), g8 @ w8, g8.t() @ x8, grad.double().sum(0)], 2e-3, 2e-3)
        maxima.append([t.abs().max().item() for t in (x, w, grad)])


def test_without_fp8_it_is_a_linear_layer_that_may_calibrate():
    layer = te.Linear(4, 3).to("hpu")
    x = torch.randn(2, 4, device="hpu")
    expected = torch.nn.functional.linear(x, layer.weight, layer.bias)
    assert torch.equal(layer(x), expected)
    with te.fp8_autocast(enabled=False, calibrating=True):
        assert torch.equal(layer(x), expected)
    assert layer.fp8_scales["input"].history[0] == x.abs().max()
    assert not te.FP8GlobalStateManager.is_fp8_enabled()
    with te.fp8_autocast(), te.fp8_autocast(enabled=False):
        assert not te.FP8GlobalStateManager.is_fp8_enabled()


def test_scales_are_saved_with_the_module():
    recipe = te.DelayedScaling()
    layer, other = te.Linear(4, 3).to("hpu"), te.Linear(4, 3).to("hpu")
    x = torch.randn(2, 4, device="hpu")
    with te.fp8_autocast(fp8_recipe=recipe):
        layer(x)
        layer(x)
    other.load_state_dict(layer.state_dict())
    with te.fp8_autocast(fp8_recipe=recipe):
        torch.testing.assert_close(other(x), layer(x))


def test_recomputation_records_nothing():
    layer = te.Linear(4, 3).to("hpu")
    x = torch.randn(2, 4, device="hpu", requires_grad=True)
    with te.fp8_autocast(fp8_recipe=te.DelayedScaling(amax_history_len=4)), te.activation_checkpointing():
        y = checkpoint(layer, x, use_reentrant=False)
        before = layer.fp8_scales["input"].history.clone()
        y.sum().backward()
    assert torch.equal(layer.fp8_scales["input"].history, before)
    assert x.grad is not None
    assert layer.fp8_scales["grad"].history[0] == 1.0


def test_attention_rounds_its_operands():
    attention = te.FusedAttention().to("hpu")
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    on_hpu = [t.to("hpu").requires_grad_() for t in (q, k, v)]
    with te.fp8_autocast():
        y = attention(*on_hpu, is_causal=True)
    y.sum().backward()
    exact = exact_attention(*(rounded(t, 1.0, E4M3, 240) for t in (q, k, v)), 8**-0.5, seen=causal(4))[0]
    close(y, exact)
    assert all(t.grad is not None for t in on_hpu)
    assert not torch.allclose(attention(*on_hpu, is_causal=True), y)


ON_THE_CPU = """
from habana_frameworks.torch.hpex.experimental import transformer_engine as te

for case in ("plain", "ModuleCacher", "make_graphed_callables"):
    layer = te.Linear(8, 4).to("hpu")
    layer.bias = torch.nn.Parameter(layer.bias.cpu())
    layer.weight = torch.nn.Parameter(layer.weight.cpu())
    layer.fp8_scales.to("cpu")
    x, run = torch.ones(5, 8, device="hpu", requires_grad=True), layer
    with te.fp8_autocast():
        if case == "ModuleCacher":
            run = torch.hpu.ModuleCacher(max_graphs=2)(model=layer, inplace=True)
        elif case == "make_graphed_callables":
            run = torch.hpu.make_graphed_callables(layer, (x,))
        for _ in range(3):
            layer.weight.grad = x.grad = None
            run(x).sum().backward()
    assert layer.weight.grad.device.type == "cpu"
    assert x.grad.device.type == "hpu"
    torch.testing.assert_close(layer.weight.grad, torch.full((4, 8), 5.0))
    assert layer.bias.grad.device == layer.bias.device
"""


def test_gradients_of_weights_on_the_cpu_return_there(script):
    """Lazy mode moves operands on the CPU. A graph cannot hold the way back, so such a module runs without one."""
    script(ON_THE_CPU, warnings="ignore", PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off")
