"""A recipe has the bits of the graph's run node by node: the optimizers' updates, and arithmetic element by element."""

import math

import pytest
import torch

import openhpu

from .support import both_ways

aten = torch.ops.aten


def assert_equal_bits(names, by_node, in_recipe):
    different = [
        name
        for name, a, b in zip(names, by_node, in_recipe, strict=True)
        if not torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    ]
    assert not different, different


SIZES = ((3,), (33, 5))
OPTIMIZERS = {
    "AdamW": (torch.optim.AdamW, {"weight_decay": 0.1}),
    "AdamW, amsgrad": (torch.optim.AdamW, {"weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    "Adam": (torch.optim.Adam, {}),
    "Adam, weight decay": (torch.optim.Adam, {"weight_decay": 0.1, "betas": (0.8, 0.99)}),
    "SGD": (torch.optim.SGD, {}),
    "SGD, momentum": (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "dampening": 0.2}),
    "SGD, nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "maximize": True}),
    "Adagrad": (torch.optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.1}),
    "Adam, tensor": (torch.optim.Adam, {"lr": torch.tensor(0.7), "maximize": True}),
}
MANY = ("AdamW", "Adam, weight decay", "Adam, tensor")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("many", [False, True])
def test_updates_of_optimizers(dtype, many):
    """The second step of all of them in one graph; steps are large, so that each rounding shows. Where the parameters
    are many, recipes call the device's kernel."""
    sizes = SIZES * 8 if many else SIZES
    optimizers = {name: OPTIMIZERS[name] for name in (MANY if many else OPTIMIZERS)}
    names = [f"{name}, {size}" for name in optimizers for size in sizes]

    def random():
        return [torch.randn(size, dtype=torch.float64).to("hpu", dtype) for size in sizes]

    def prepare():
        torch.manual_seed(1)
        made = []
        for kind, options in optimizers.values():
            params = [torch.nn.Parameter(p) for p in random()]
            first = random()
            second = random()
            made.append((params, kind(params, **{"lr": 0.7, **options}), second))
            update(params, made[-1][1], first)  # so that there is a state
        return made

    def update(params, optimizer, grads):
        for p, g in zip(params, grads, strict=True):
            p.grad = g.clone()
        optimizer.step()
        return [p.detach().clone() for p in params]

    def run(made):
        return [t for params, optimizer, grads in made for t in update(params, optimizer, grads)]

    assert_equal_bits(names, *both_ways(prepare, run))
    assert openhpu.recipes()[0].external_kernels == (len(MANY) if many else 0)


def _operands(n):
    torch.manual_seed(2)
    x, y, z, u = (torch.randn(n).to("hpu") for _ in range(4))
    return x, y, z, u.abs().clamp(0.01, 0.99)


ARITHMETIC = {
    "add": lambda x, y, z, u: x + y,
    "add, alpha": lambda x, y, z, u: torch.add(x, y, alpha=0.3),
    "sub, alpha": lambda x, y, z, u: torch.sub(x, y, alpha=0.3),
    "rsub, alpha": lambda x, y, z, u: torch.rsub(x, y, alpha=0.7),
    "mul": lambda x, y, z, u: x * y,
    "div": lambda x, y, z, u: x / y,
    "div, number": lambda x, y, z, u: x / 3.7,
    "reciprocal": lambda x, y, z, u: x.reciprocal(),
    "rsqrt": lambda x, y, z, u: u.rsqrt(),
    "square": lambda x, y, z, u: x**2,
    "cube": lambda x, y, z, u: x**3,
    "power -1": lambda x, y, z, u: x**-1.0,
    "power -2": lambda x, y, z, u: x**-2.0,
    "power -0.5": lambda x, y, z, u: u**-0.5,
    "addcmul": lambda x, y, z, u: torch.addcmul(x, y, z),
    "addcmul, value": lambda x, y, z, u: torch.addcmul(x, y, z, value=0.3),
    "addcdiv": lambda x, y, z, u: torch.addcdiv(x, y, z),
    "addcdiv, value": lambda x, y, z, u: torch.addcdiv(x, y, z, value=-0.3),
    "lerp, near": lambda x, y, z, u: torch.lerp(x, y, 0.1),
    "lerp, tensor": lambda x, y, z, u: torch.lerp(x, y, u),
    "remainder": lambda x, y, z, u: torch.remainder(x, y),
    "clamp": lambda x, y, z, u: x.clamp(-1, 1),
    "where": lambda x, y, z, u: torch.where(x > y, x, z),
    "relu": lambda x, y, z, u: x.relu(),
    "hardswish": lambda x, y, z, u: torch.nn.functional.hardswish(x),
    "leaky_relu": lambda x, y, z, u: torch.nn.functional.leaky_relu(x, 0.1),
    "threshold backward": lambda x, y, z, u: aten.threshold_backward(x, y, 0),
    "tanh backward": lambda x, y, z, u: aten.tanh_backward(x, y),
    "sigmoid backward": lambda x, y, z, u: aten.sigmoid_backward(x, u),
    "mse": lambda x, y, z, u: torch.nn.functional.mse_loss(x, y, reduction="none"),
    "mse backward": lambda x, y, z, u: aten.mse_loss_backward(x, y, z, 0),
    "huber": lambda x, y, z, u: torch.nn.functional.huber_loss(x, y, reduction="none"),
    "dropout": lambda x, y, z, u: torch.nn.functional.dropout(x, 0.3),
    "bfloat16": lambda x, y, z, u: x.bfloat16(),
    "a chain": lambda x, y, z, u: torch.addcmul(x * y + z, x, y, value=0.5) * 0.7 - z * x,
}


@pytest.mark.parametrize("n", [15, 4099])
def test_arithmetic(n):
    """With what remains when a kernel's vectors are full, and without."""

    def prepare():
        operands = _operands(n)
        for function in ARITHMETIC.values():
            function(*operands)
        torch.hpu.manual_seed(3)
        return operands

    def run(operands):
        return [function(*operands) for function in ARITHMETIC.values()]

    assert_equal_bits(ARITHMETIC, *both_ways(prepare, run))


# Quotients that round up to an integer, signs, and what is no number or has no quotient.
DIVIDED = ((1, 0.1), (6, 0.2), (5, 0.05), (0.5, math.inf), (0.5, -math.inf), (-1, math.inf), (-7, 3), (7, -3),
           (-6, 0.2), (0.0, 3), (-0.0, 3), (0.0, -3), (1, 0.0), (-1, 0.0), (0.0, 0.0), (math.inf, 2), (math.nan, 1),
           (1, math.nan), (1e30, 7e25), (33333, 0.3), (-1e-20, 5), (-123, 0.7))  # fmt: skip
DIVISIONS = {
    "remainder": torch.remainder,
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "remainder, number": lambda x, y: x % 0.1,
    "floor, number": lambda x, y: x // 0.1,
    "remainder of a number": lambda x, y: -0.7 % y,
    "floor of a number": lambda x, y: -0.7 // y,
    "floor, one wider": lambda x, y: x // y[0].double(),
    "floor of integers": lambda x, y: torch.arange(len(x), device=x.device) // y,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_floor_division_and_remainder(dtype):
    """In vectors, and in what remains behind them. PyTorch's kernels agree in both for these numbers."""

    def prepare():
        return [x.repeat(5).to("hpu", dtype) for x in torch.tensor(DIVIDED, dtype=torch.float64).T]

    def run(operands):
        return [function(*operands) for function in DIVISIONS.values()]

    found = both_ways(prepare, run)
    assert_equal_bits(DIVISIONS, *([x.nan_to_num(12345) for x in results] for results in found))


CONSTANTS = {
    "filled, wider": lambda x: torch.full((), -0.7, dtype=x.dtype, device="hpu").double() * x.double(),
    "filled like, wider": lambda x: torch.full_like(x, -0.7).float() * x.float(),
    "narrower": lambda x: torch.full((35,), -0.7, dtype=torch.float64, device="hpu").to(x.dtype) * x.float(),
    "narrower, wider": lambda x: torch.full((), -0.7, device="hpu").to(x.dtype).float() * x.float(),
    "a sum, narrower": lambda x: (torch.full((), -0.7, device="hpu") + 0.001).to(x.dtype).float() * x.float(),
    "a sum, wider": lambda x: (torch.full((), -0.7, device="hpu") + 0.001).double() * x.double(),
    "too large": lambda x: torch.full((), 1e38, device="hpu").to(x.dtype).float() * x.float(),
    "a large integer": lambda x: torch.full((), 2**60 + 1, device="hpu").float() * x.float(),
    "chosen": lambda x: torch.where(x > 0, torch.full((), -0.7, dtype=x.dtype, device="hpu"), x).float() * 0.7,
    "a number": lambda x: x + 0.7,
    "a number of a product": lambda x: torch.add(x, x, alpha=0.7),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_constants_have_the_digits_of_their_dtype(dtype):
    """Where they fill a tensor and where they are converted; numbers beside a tensor have all of their digits."""

    def prepare():
        return torch.linspace(-3, 3, 35).to("hpu", dtype)

    def run(x):
        return [function(x) for function in CONSTANTS.values()]

    assert_equal_bits(CONSTANTS, *both_ways(prepare, run))


def test_sums_over_indices_are_added_in_order():
    """Recipes that add to places which tensors name do so on one thread, in the order of the CPU's kernels."""
    rows = torch.randn(4000, 96).exp().to("hpu")  # 1.5 MB: a recipe of several threads
    index = torch.randint(5, (4000,)).to("hpu")
    start = torch.randn(5, 96).to("hpu")

    def run(_):
        return [
            start.index_add(0, index, rows),
            start.scatter_add(0, index[:, None].expand(4000, 96), rows),
            aten.embedding_dense_backward.default(rows, index, 5, -1, False),
        ]

    names = ("index_add", "scatter_add", "embedding_dense_backward")  # the CPU's index_put adds from several threads
    assert_equal_bits(names, *both_ways(lambda: None, run))
