"""torch.compile with sizes that are symbols, and training whose last batch is smaller, in every mode."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tests.hpu.support import MODELS, compiled_agrees, make, to_cpu, train_step

pytestmark = pytest.mark.usefixtures("compiled_graphs")

SIZES = (6, 5, 3)  # the first batch of another size makes symbols


class Attention(nn.Module):
    """Self-attention with dropout, by `kind`."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.qkv = nn.Linear(8, 24)
        self.whole = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)

    def forward(self, x):
        if self.kind == "module":
            return self.whole(x, x, x, need_weights=False)[0]
        q, k, v = (part.view(*x.shape[:2], 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mask = None if self.kind == "causal" else torch.zeros(4, 4, device=x.device)
        y = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=0.3, is_causal=mask is None)
        return y.transpose(1, 2).reshape(x.shape)


class Function(nn.Module):
    """`function` behind a linear layer."""

    def __init__(self, function):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.function = function

    def forward(self, x):
        return self.function(self.layer(x))


def _of(function):
    return lambda: Function(function)


def drawn_in_place(x):
    like = torch.empty_like
    numbers = x + like(x).exponential_() + like(x).uniform_(1, 2) + like(x).geometric_(0.5)
    return numbers + like(x).log_normal_() + like(x).cauchy_() + like(x).random_(3)


def drawn_normally(x):
    deviations = torch.normal(torch.zeros_like(x), 2.0)
    means = torch.normal(0.0, torch.ones_like(x))
    both = torch.normal(x.detach(), torch.ones_like(x))
    return x + deviations + means + both


def drawn_from_parameters(x):
    fixed = x.detach()
    poisson = torch.poisson(fixed.abs())
    gamma = torch._standard_gamma(fixed.abs() + 0.1)
    dirichlet = torch._sample_dirichlet(fixed.abs() + 0.1)
    binomial = torch.binomial(torch.full_like(x, 9), torch.sigmoid(fixed))
    return x + poisson + gamma + dirichlet + binomial


def factories(x):
    rows = x.shape[0]
    full = torch.full((rows, 1, 1), 2.0, device="hpu")
    numbers = torch.arange(rows, device="hpu")[:, None, None]
    strided = torch.empty_strided(x.shape, (8, 1, 0), device="hpu").fill_(1)
    return x + full + numbers + strided


def outer_product(x):
    rows = x.shape[0]
    product = torch.zeros(rows, 8, device="hpu").addr_(torch.ones(rows, device="hpu"), x[0, 0].detach())
    return product + x[:, 0]


# Everything for which csrc/kernels has a kernel of its own, and what is made of it.
CASES = {
    "dropout": _of(lambda x: F.dropout(x, 0.5)),
    "dropout in place": _of(lambda x: F.dropout(x * 2, 0.5, inplace=True)),
    "dropout of nothing": _of(lambda x: F.dropout(x, 0.0) + F.dropout(x, 0.5, training=False)),
    "dropout of all": _of(lambda x: F.dropout(x, 1.0) + x),
    "dropout in place of all": _of(lambda x: F.dropout(x * 2, 1.0, inplace=True) + x),
    "dropout of channels": _of(lambda x: F.dropout1d(x, 0.5) + F.alpha_dropout(x, 0.5)),
    "dropout under autocast": _of(lambda x: torch.autocast("hpu")(lambda y: F.dropout(y @ y.mT, 0.5))(x)),
    "causal attention": lambda: Attention("causal"),
    "masked attention": lambda: Attention("masked"),
    "attention module": lambda: Attention("module"),
    "encoder layer": lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True),
    "lstm cell": lambda: Function(lambda x: torch.sigmoid(x).cumsum(1)),
    "convolution": lambda: nn.Sequential(nn.Conv1d(4, 6, 3, padding=1), nn.BatchNorm1d(6), nn.Dropout(0.1)),
    "transposed convolution": lambda: nn.ConvTranspose1d(4, 3, 3, stride=2),
    "randomised relu": _of(lambda x: F.rrelu(x, training=True)),
    "drawn like it": _of(lambda x: x * torch.rand_like(x) + torch.randn_like(x) + torch.bernoulli(torch.sigmoid(x))),
    "drawn of its size": _of(
        lambda x: x + torch.rand(x.shape[0], 1, 8, device="hpu") + torch.randint(3, (x.shape[0], 1, 1), device="hpu")
    ),
    "drawn in place": _of(drawn_in_place),
    "drawn normally": _of(drawn_normally),
    "drawn from parameters": _of(drawn_from_parameters),
    "permuted": _of(lambda x: x[torch.randperm(x.shape[0], device="hpu")]),
    "categories": _of(lambda x: x.sum(-1) + torch.multinomial(torch.softmax(x.detach()[:, 0], -1), 4)),
    "factories": _of(factories),
    "new tensors": _of(lambda x: x + x.new_zeros(x.shape) + torch.ones_like(x) + torch.zeros_like(x).copy_(x.detach())),
    "views": _of(lambda x: x.view(-1, 8).unfold(1, 2, 2).as_strided((x.shape[0], 2), (8, 1)).unsqueeze(1)),
    "in place": _of(lambda x: (x * 2).relu().mul(x).add_(1).clamp_(-3, 3)),
    "an outer product": _of(outer_product),
    "joined": _of(lambda x: torch.cat([x, x.new_zeros(x.shape[0], 1, 8)], 1)),
    "indices": _of(lambda x: x[torch.arange(x.shape[0], device="hpu") // 2]),
}


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # Dynamo's, at graph breaks
@pytest.mark.parametrize("case", CASES)
def test_sizes_may_change(case):
    model = CASES[case]().to("hpu")
    compiled_agrees(
        model,
        lambda k: (torch.linspace(-1, 1, SIZES[k] * 32, device="hpu").view(-1, 4, 8).requires_grad_(),),
        model=model,
        rtol=1e-4,
        atol=1e-5,
    )


# Kernels above autograd run on fake tensors, too.
ABOVE_AUTOGRAD = {
    "aten::dropout": lambda x: (torch.dropout(x, 0.5, True), torch.dropout(x, 1.0, True), torch.dropout(x, 0.0, True)),
    "aten::dropout_": lambda x: (torch.dropout_(x.clone(), 0.5, True), torch.dropout_(x.clone(), 1.0, True)),
}


def test_each_kernel_above_autograd_is_tried():
    """With PyTorch's own, which are those of all devices."""
    registered = set(torch._C._dispatch_get_registrations_for_dispatch_key("AutogradHPU"))
    elsewhere = set(torch._C._dispatch_get_registrations_for_dispatch_key("AutogradXPU"))
    assert registered - elsewhere == set(ABOVE_AUTOGRAD)


def test_kernels_above_autograd_take_sizes_that_are_not_known():
    environment = ShapeEnv()
    with FakeTensorMode(shape_env=environment):
        n = environment.create_unbacked_symint()
        torch._check(n >= 0)
        x = torch.empty(n, 4, device="hpu")
        for function in ABOVE_AUTOGRAD.values():
            for y in function(x):
                assert y.shape[1] == 4


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_last_batch_of_an_epoch_is_smaller(name, compiled):
    found = {}
    for device in ("hpu", "cpu"):
        model, optimizer, x, target = make(name, torch.optim.SGD, device)
        callee = torch.compile(model, backend="hpu_backend") if compiled and device == "hpu" else model
        batches = (x, target), (x.flip(0), target.flip(0)), (x, target), (x[:-1].contiguous(), target[:-1].contiguous())
        losses = [train_step(callee, optimizer, *batch).item() for _ in range(2) for batch in batches]
        found[device] = losses, to_cpu(model.state_dict())
    torch.testing.assert_close(found["hpu"][0], found["cpu"][0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found["hpu"][1], found["cpu"][1], rtol=1e-2, atol=1e-3)
