"""hpex.optimizers.FusedAdamW: torch.optim.AdamW's numbers, also with moments in narrower dtypes."""

import pytest
import torch

from openhpu.interface.hpex.optimizers import FusedAdamW

SHAPES = ((4, 3), (7,))


def run(make, steps=5, device="hpu", dtype=torch.float32):
    """Parameters after some steps with gradients that are always the same, and the optimizer."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(s).to(device, dtype)) for s in SHAPES]
    optimizer = make(params)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape).to(device, dtype)
        optimizer.step()
    return [p.detach().cpu() for p in params], optimizer


def test_it_is_pytorchs(counted):
    with counted() as difference:
        mine, optimizer = run(lambda p: FusedAdamW(p, lr=0.1, weight_decay=0.1))
    assert difference["ops_fallback"] == 0
    theirs, _ = run(lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1, eps=1e-6))
    torch.testing.assert_close(mine, theirs)
    again = FusedAdamW(optimizer.param_groups[0]["params"])
    again.load_state_dict(optimizer.state_dict())
    again.step()


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.bfloat16, 0.02), (torch.float8_e4m3fn, 0.2), ((torch.float8_e4m3fn, torch.float8_e5m2), 0.2)],
)
def test_moments_in_narrower_dtypes(dtype, tolerance):
    mine, optimizer = run(lambda p: FusedAdamW(p, lr=0.1, moments_dtype=dtype))
    theirs, _ = run(lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0, eps=1e-6))
    first = dtype[0] if isinstance(dtype, tuple) else dtype
    assert all(state["exp_avg"].dtype is first for state in optimizer.state.values())
    torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)
    assert not torch.equal(mine[0], theirs[0])


def test_without_correction_of_the_bias():
    mine, _ = run(lambda p: FusedAdamW(p, lr=0.1, bias_correction=False), steps=2)
    torch.manual_seed(0)
    params = [torch.randn(s).double() for s in ((4, 3), (7,))]
    moments = [[torch.zeros_like(p), torch.zeros_like(p)] for p in params]
    for _ in range(2):
        for p, (m, v) in zip(params, moments, strict=True):
            g = torch.randn(p.shape).double()
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g * g)
            p.sub_(0.1 * m / (v.sqrt() + 1e-6))
    torch.testing.assert_close([p.double() for p in mine], params, rtol=1e-5, atol=1e-6)


def test_bad_input():
    p = [torch.nn.Parameter(torch.ones(2))]
    with pytest.raises(ValueError, match="lr is -1"):
        FusedAdamW(p, lr=-1)
    with pytest.raises(ValueError, match="betas are"):
        FusedAdamW(p, betas=(0.9, 1.0))
    with pytest.raises(ValueError, match=r"moments_dtype is torch.int8"):
        FusedAdamW(p, moments_dtype=torch.int8)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float8_e4m3fn])
def test_a_checkpoint_of_the_cpu(tmp_path, dtype):
    """A state that was loaded to the CPU goes on as if it had never been saved."""
    _, optimizer = run(lambda p: FusedAdamW(p, lr=0.1, moments_dtype=dtype))
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    params = optimizer.param_groups[0]["params"]
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    again = FusedAdamW(copies, lr=0.1, moments_dtype=dtype)
    again.load_state_dict(torch.load(tmp_path / "state.pt", map_location="cpu"))
    for one, two in zip(optimizer.state.values(), again.state.values(), strict=True):
        assert {n: (v.dtype, v.device) for n, v in one.items()} == {n: (v.dtype, v.device) for n, v in two.items()}
    for chosen, step in ((params, optimizer), (copies, again)):
        for p in chosen:
            p.grad = torch.ones_like(p)
        step.step()
    assert all(torch.equal(one, two) for one, two in zip(params, copies, strict=True))
