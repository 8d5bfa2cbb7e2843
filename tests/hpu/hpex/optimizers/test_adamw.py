"""hpex.optimizers.FusedAdamW: torch.optim.AdamW's numbers, also with moments in narrower dtypes.

That of hpex.optimizers.distributed steps with gradients that are given.
"""

import math

import pytest
import torch

from openhpu.interface.hpex.optimizers import FusedAdamW
from openhpu.interface.hpex.optimizers.distributed import FusedAdamW as Given
from tests.hpu.support import close

SHAPES = ((4, 3), (7,))


def parameters(device="hpu", dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(s).to(device, dtype)) for s in SHAPES]


def run(make, steps=5, device="hpu", dtype=torch.float32):
    """Parameters after some steps with gradients that are always the same, and the optimizer."""
    params = parameters(device, dtype)
    optimizer = make(params)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape).to(device, dtype)
        optimizer.step()
    return [p.detach().cpu() for p in params], optimizer


def formula(steps, corrected=True, decay=0.0, most=math.inf, trusted=False):
    """The parameters of `run` in float64, after steps of Adam, or of Lamb with a ratio of trust."""
    torch.manual_seed(0)
    params = [torch.randn(s).double() for s in SHAPES]
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in params]
    for step in range(1, steps + 1):
        grads = [torch.randn(p.shape).double() for p in params]
        norm = torch.cat([g.flatten() for g in grads]).norm()
        for p, g, (m, v) in zip(params, grads, moments, strict=True):
            g = g / max(1.0, norm / most)
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g * g)
            first, second = (m / (1 - 0.9**step), v / (1 - 0.999**step)) if corrected else (m, v)
            update = first / (second.sqrt() + 1e-6) + decay * p
            p.sub_(0.1 * (p.norm() / update.norm() if trusted else 1.0) * update)
    return params


def test_it_is_pytorchs(no_fallback):
    mine, optimizer = run(lambda p: FusedAdamW(p, lr=0.1, weight_decay=0.1))
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
    close(mine, formula(2, corrected=False))


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


def test_gradients_that_are_given_are_those_of_the_step():
    mine, theirs = parameters(), parameters()
    given, own = Given(mine, lr=0.1), FusedAdamW(theirs, lr=0.1)
    for k in range(3):
        grads = [torch.full_like(p, k + 1.0) for p in mine]
        for p, grad in zip(theirs, grads, strict=True):
            p.grad = grad
        own.step()
        given.step(grads)
    torch.testing.assert_close(mine, theirs)
    assert all(p.grad is None for p in mine)


def test_a_parameter_alone():
    first, second = parameters()
    before = first.detach().clone(), second.detach().clone()
    Given([first, second], lr=0.1).step_param(second, torch.ones_like(second))
    assert torch.equal(first, before[0])
    assert not torch.equal(second, before[1])


def test_a_closure():
    (p, _) = parameters()

    def closure():
        p.grad = torch.ones_like(p)
        return 5

    assert Given([p], lr=0.1).step(closure) == 5


@pytest.mark.parametrize("moments", [None, torch.float32])
@pytest.mark.parametrize("order", [[[0, 1], [2, 3]], [[2, 3], [0, 1]], [[0], [1, 2, 3]], [[3, 1], [2, 0]]], ids=str)
def test_a_checkpoint_of_pytorchs_adamw(order, moments):
    """Its groups have no `bias_correction` and count no steps; a state belongs to a place in the groups."""
    theirs = [torch.nn.Parameter(torch.randn(4, 3)) for _ in range(4)]

    def step(optimizer, parameters, k):
        numbers = torch.Generator().manual_seed(k)
        for parameter in parameters:
            parameter.grad = torch.randn(4, 3, generator=numbers).to(parameter.device)
        optimizer.step()

    groups = [
        {"params": [theirs[i] for i in places], "lr": 1e-2 * (k + 1), "weight_decay": 0.1 * k}
        for k, places in enumerate(order)
    ]
    reference = torch.optim.AdamW(groups, eps=1e-6)
    for k in range(3):
        step(reference, theirs, k)
    ours = [torch.nn.Parameter(parameter.detach().to("hpu")) for parameter in theirs]
    optimizer = FusedAdamW(
        [{"params": [ours[i] for i in places]} for places in order], lr=1.0, eps=1e-6, moments_dtype=moments
    )
    optimizer.load_state_dict(reference.state_dict())
    for k in range(3, 5):
        step(reference, theirs, k)
        step(optimizer, ours, k)
    close([parameter.detach() for parameter in ours], [parameter.detach() for parameter in theirs], 1e-5, 1e-6)
