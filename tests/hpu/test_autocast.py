"""torch.autocast("hpu"): which operators run in which dtype."""

import pytest
import torch
from torch import nn


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_matrix_products_run_in_lower_precision(dtype):
    x = torch.ones(4, 4, device="hpu")
    with torch.autocast("hpu", dtype=dtype):
        assert (x @ x).dtype == dtype
        assert nn.functional.linear(x, x).dtype == dtype
        assert torch.bmm(x[None], x[None]).dtype == dtype
        assert nn.functional.conv2d(x[None, None], x[None, None]).dtype == dtype
        assert nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]).dtype == dtype
    assert (x @ x).dtype == torch.float32


def test_losses_run_in_float32():
    x = torch.ones(4, 4, device="hpu", dtype=torch.bfloat16)
    with torch.autocast("hpu"):
        assert nn.functional.cross_entropy(x, torch.arange(4, device="hpu")).dtype == torch.float32


def test_every_operator_still_runs():
    x = torch.rand(4, 4, device="hpu")
    with torch.autocast("hpu"):
        for function in (torch.exp, torch.relu, torch.sort, torch.fft.fft, torch.nonzero, torch.cumsum):
            function(x, 0) if function is torch.cumsum else function(x)
        torch.add(x, x, out=torch.empty_like(x))
        torch.cat([x, x.bfloat16()])
        x.view(-1)[:3].clone().add_(1)


def test_the_cpus_autocast_is_another():
    x, y = torch.ones(2, 2, device="hpu"), torch.ones(2, 2)
    with torch.autocast("hpu"):
        assert (y @ y).dtype == torch.float32
    with torch.autocast("cpu"):
        assert (x @ x).dtype == torch.float32


def test_an_unsupported_dtype_is_a_warning_and_no_autocast():
    x = torch.ones(2, 2, device="hpu")
    with pytest.warns(UserWarning, match="not supported"), torch.autocast("hpu", dtype=torch.float64):
        assert (x @ x).dtype == torch.float32


def test_the_gradient_scaler():
    model = nn.Linear(4, 2).to("hpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("hpu", init_scale=128.0)
    before = model.weight.detach().clone()
    with torch.autocast("hpu", dtype=torch.float16):
        loss = model(torch.ones(3, 4, device="hpu")).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.testing.assert_close(model.weight.grad, torch.full_like(before, 3.0))
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(model.weight.detach(), before - 0.3, rtol=1e-3, atol=1e-3)
