"""Optimizers that step lists: their PyTorch counterparts' numbers, or those of the published formula."""

import functools

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
        ("FusedResourceApplyMomentum", "SGD", {"momentum": 0.9, "weight_decay": 0.1}, 1e-5),
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


# Arguments that programs pass, and where: in Gaudi's documents (gaudi-api 1.3), or in a public library.
PASSED = [
    ("FusedAdamW", {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}, "optimum-habana's trainer"),
    ("FusedAdamW", {"lr": 1e-3, "betas": (0.9, 0.95), "weight_decay": 1e-2, "eps": 1e-8}, "its diffusion examples"),
    ("FusedAdamW", {"lr": 1e-3, "moments_dtype": (torch.bfloat16, torch.bfloat16)}, "gaudi-api"),
    ("FusedAdamW", {"lr": 1e-3, "bias_correction": False}, "gaudi-api"),
    ("FusedSGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}, "lightning-habana's tests"),
    ("FusedSGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "nesterov": True}, "torch.optim.SGD"),
    ("FusedAdagrad", {"lr": 1e-2, "lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-10}, "gaudi-api"),
    ("FusedLamb", {"lr": 1e-3, "max_grad_norm": 1.0, "use_lamb": True, "fused": True, "dtype": None}, "gaudi-api"),
    ("FusedLamb", {"lr": 1e-3, "weight_decay": 0.01, "grad_averaging": True, "set_grad_none": True}, "gaudi-api"),
    ("FusedResourceApplyMomentum", {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-5}, "as FusedLars wraps it"),
    ("Adam", {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}, "torch.optim.Adam"),
    ("AdamW", {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}, "torch.optim.AdamW"),
]


@pytest.mark.parametrize(("name", "arguments", "source"), PASSED)
def test_arguments_that_programs_pass(no_fallback, name, arguments, source):
    """They are taken, and a step with them changes the parameters."""
    before = train(lambda p: torch.optim.SGD(p, lr=0.0), steps=1)
    after = train(lambda p: getattr(optimizers, name)(p, **arguments), steps=1)
    assert all(bool((a != b).any()) for a, b in zip(after, before, strict=True)), source


def test_lars_around_resource_apply_momentum(no_fallback):
    """Lars adds the weight decay, and the momentum's own step has none then: the numbers are those around SGD."""
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
    found = []
    for kind in (optimizers.FusedResourceApplyMomentum, torch.optim.SGD):
        wrapped = functools.partial(optimizers.FusedLars, skip_mask=[1, 0], eeta=0.01)
        found.append(train(lambda p, kind=kind, wrapped=wrapped: wrapped(kind(p, **options)), steps=3))
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)


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
