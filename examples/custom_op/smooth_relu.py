"""A user operator in C++, built by this script: a small model with it is trained, recorded and compiled.

python -m examples.custom_op.smooth_relu
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import cpp_extension

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir

HERE = Path(__file__).parent


class SmoothRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.beta = beta
        return torch.ops.example.smooth_relu(x, beta)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return torch.ops.example.smooth_relu_backward(grad, x, ctx.beta), None


class Activation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return SmoothRelu.apply(x, 2.0)  # type: ignore[no-any-return]


def build() -> None:
    cpp_extension.load(
        name="smooth_relu",
        sources=[str(HERE / "smooth_relu.cpp")],
        extra_include_paths=[get_include_dir()],
        extra_ldflags=[f"-L{get_lib_dir()}", "-lhabana_pytorch2_plugin"],
        is_python_module=False,
    )


def main() -> None:
    build()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), Activation(), nn.Linear(32, 1)).to("hpu")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    x = torch.rand(256, 8).to("hpu")
    y = (x**2).sum(1, keepdim=True)
    for step in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        htcore.mark_step()
        optimizer.step()
        htcore.mark_step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    with torch.no_grad():
        expected = nn.functional.softplus(x, beta=2)
        compiled = torch.compile(lambda t: torch.ops.example.smooth_relu(t, 2.0) * 1, backend="hpu_backend")
        for result in (torch.ops.example.smooth_relu(x, 2.0), compiled(x)):
            torch.testing.assert_close(result, expected)
    print(f"the last loss is {loss.item():.4f}; eager and compiled results agree with softplus")


if __name__ == "__main__":
    main()
