"""torch.compile of convolutions: channels last between forward and backward, and nothing of it outside."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from openhpu.capture.torch_compile.graph import compiled_graphs
from tests.hpu.support import compiled_agrees


def conjugated(x):
    y = torch.complex(x, x) * 2
    return [y, y.conj(), y.conj().imag]


@pytest.mark.parametrize(
    "work",
    [
        lambda x: torch.complex(x, x).conj(),
        lambda x: torch.complex(x, x).conj().imag,
        lambda x: torch._neg_view(x + 1),
        lambda x: (x * 2, torch._neg_view(x)),
        conjugated,
    ],
)
def test_conjugate_and_negative_bits(work):
    """Of results, and of arguments in some of the calls."""
    x = lambda k: torch.full((4,), k + 1.0, device="hpu")  # noqa: E731
    compiled_agrees(work, lambda k: (torch._neg_view(x(k)) if k in (1, 4) else x(k),), calls=6)


@torch.library.custom_op("openhpu_test::rows", mutates_args=())
def rows(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@rows.register_fake
def _(x):
    return torch.empty_like(x)


rows.register_autograd(lambda context, gradient: gradient)


class Net(nn.Module):
    """Convolutions with `between` after the first."""

    def __init__(self, between):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.second = nn.Conv2d(8, 8, 3, groups=2)
        self.shortcut = nn.Conv2d(8, 8, 3, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.between = between

    def forward(self, x):
        hidden = self.between(self.norm(self.first(x)).relu())
        return self.second(hidden) + self.shortcut(hidden), hidden, F.max_pool2d(hidden, 2).flatten(1).mean(0)


def recorded():
    """How many forward graphs ask for an order of their own."""
    return sum(graph.kind == "forward" and "aten.contiguous" in str(graph) for graph in compiled_graphs())


CASES = {
    "convolutions": (lambda h: h, 1),
    "dropout": (lambda h: F.dropout(h, 0.5), 1),
    "views": (lambda h: (h.flatten(2)[:, :, 6:] * 2).view(4, 8, 5, 6), 1),
    "strided results": (lambda h: h.transpose(2, 3)[:, :, 1:] * 2, 0),
    "channels last": (lambda h: h.contiguous(memory_format=torch.channels_last), 0),
    "custom operator": (torch.ops.openhpu_test.rows, 0),
    "by memory": (lambda h: h + h.as_strided((4, 8, 6, 6), (1, 4, 32, 192)), 0),
    "transposed": (lambda h: F.conv_transpose2d(h, h[0, :, :3, :3].unsqueeze(1).expand(8, 8, 3, 3), padding=1), 1),
}


@pytest.mark.parametrize("case", CASES)
def test_values_strides_and_random_numbers_are_those_of_eager_mode(case):
    between, laid_out = CASES[case]
    net = Net(between).to("hpu")
    before = recorded()
    compiled_agrees(
        net,
        lambda k: (torch.rand(4, 3, 6, 6).to("hpu").requires_grad_(),),
        model=net,
        rtol=1e-3,
        atol=2e-2,
        fullgraph=True,
    )
    assert recorded() - before == laid_out


def test_what_is_saved_for_backward_lies_channels_last_in_both_recipes(script):
    code = """
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(16, 2))
        on_hpu = torch.compile(net.to("hpu"), backend="hpu_backend")
        x = torch.rand(4, 3, 6, 6, device="hpu")
        for _ in range(3):
            on_hpu(x).sum().backward()
        openhpu.wait_for_recipes()
        with counted(ops_node_by_node=0) as moved:
            on_hpu(x).sum().backward()
            torch.hpu.synchronize()
        assert moved["ops_in_recipes"] > 0
        (backward,) = [str(recipe) for recipe in openhpu.recipes() if "convolution_backward" in str(recipe)]
        given = [line for line in backward.splitlines() if line.strip().startswith("# x")]
        images = [line for line in given if "[4, 3, 6, 6]" in line or "[4, 8, 4, 4]" in line]
        assert len(images) == 2, given
        assert all("strides" in line for line in images), given
    """
    script(code, PT_HPU_LAZY_MODE="0", OPENHPU_COMPILE="background", PT_HPU_RECIPE_CACHE_CONFIG="")
