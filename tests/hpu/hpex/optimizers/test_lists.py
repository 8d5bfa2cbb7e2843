"""Optimizers that step lists: their PyTorch counterparts' numbers, or those of the published formula."""

import pytest
import torch

from openhpu.interface.hpex import optimizers
from tests.hpu.support import close

from .test_adamw import SHAPES, formula, run


def train(make, steps=4, device="hpu", dtype=torch.float32):
    """Parameters after steps with gradients that are the same each time."""
    return [p.double() for p in run(make, steps, device, dtype)[0]]


@pytest.mark.parametrize(
    ("mine", "theirs", "options", "near"),
    [
        ("FusedSGD", "SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, 1e-5),
        ("FusedAdagrad", "Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}, 1e-5),
        ("FusedResourceApplyMomentum", "SGD", {"momentum": 0.9}, 1e-5),
        ("Adam", "Adam", {}, 1e-4),
        ("AdamW", "AdamW", {}, 1e-4),
    ],
)
def test_pytorchs(no_fallback, mine, theirs, options, near):
    found = train(lambda p: getattr(optimizers, mine)(p, lr=0.1, **options))
    expected = train(lambda p: getattr(torch.optim, theirs)(p, lr=0.1, **options), device="cpu", dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=near, atol=near / 10)


@pytest.mark.parametrize(("decay", "use_lamb"), [(0.05, False), (0.0, True), (0.0, False)])
def test_lamb(no_fallback, decay, use_lamb):
    options = {"lr": 0.1, "weight_decay": decay, "use_lamb": use_lamb, "max_grad_norm": 2.0}
    mine = train(lambda p: optimizers.FusedLamb(p, **options))
    expected = formula(4, decay=decay, most=2.0, trusted=bool(decay or use_lamb))
    torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)


def test_lars_scales_gradients_and_gives_the_weight_decay_back(no_fallback):
    def make(params):
        sgd = torch.optim.SGD(params, lr=0.1, weight_decay=0.01)
        return optimizers.FusedLars(sgd, [1, 0], eeta=0.01)

    mine = train(make, steps=2)
    torch.manual_seed(0)
    params = [torch.randn(s).double() for s in SHAPES]
    for _ in range(2):
        grads = [torch.randn(p.shape).double() for p in params]
        trust = 0.01 * params[0].norm() / (grads[0].norm() + 0.01 * params[0].norm() + 1e-8)
        params[0].sub_(0.1 * trust * (grads[0] + 0.01 * params[0]))
        params[1].sub_(0.1 * grads[1])
    torch.testing.assert_close(mine, params, rtol=1e-5, atol=1e-6)
    parameter = torch.nn.Parameter(torch.ones(2, device="hpu"))
    wrapped = make([parameter, torch.nn.Parameter(torch.ones(2, device="hpu"))])
    wrapped.zero_grad()
    wrapped.step()
    assert wrapped.param_groups[0]["weight_decay"] == 0.01


@pytest.mark.parametrize(("name", "dense"), [("SparseSGD", "SGD"), ("SparseAdagrad", "Adagrad")])
def test_sparse_gradients(name, dense):
    def table(make, sparse):
        torch.manual_seed(0)
        model = torch.nn.Embedding(8, 3, sparse=sparse)
        model = model.to("hpu") if sparse else model.double()
        optimizer = make(model.parameters(), lr=0.1)
        for batch in ([1, 5, 5], [5, 0, 1]):
            optimizer.zero_grad()
            model(torch.tensor(batch, device=model.weight.device)).square().sum().backward()
            optimizer.step()
        return model.weight

    close(table(getattr(optimizers, name), True), table(getattr(torch.optim, dense), False))


@pytest.mark.parametrize(
    ("size", "dtype"), [(10, torch.float32), (1_000_003, torch.float32), (100_001, torch.bfloat16)]
)
def test_the_norm_of_many_gradients(size, dtype):
    grads = [(torch.randn(size) * factor).to(dtype) for factor in (1, 3, 50)]
    expected = torch.stack([grad.double().square().sum() for grad in grads]).sum().sqrt() / 0.5
    found = torch.ops.hpu.optimizer_lamb_fused_norm([grad.to("hpu") for grad in grads], 0.5)
    close(found, expected.reshape(1), 1e-6, 0)
    assert found.dtype is torch.float32
