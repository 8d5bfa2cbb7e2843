"""Kernels in TPC-C in training: builds them and their operators, trains a small model beside the CPU's, in a graph too.

python -m examples.tpc.train
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

import habana_frameworks.torch as ht
import habana_frameworks.torch.core as htcore
from examples.tpc import operators

CLASSES = 10


class Model(nn.Module):
    """A norm, two products with silu between them, and a softmax: by kernels of TPC-C on hpu, by PyTorch on the CPU."""

    def __init__(self, width: int = 24, hidden: int = 70) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.up = nn.Parameter(torch.randn(width, hidden) / width**0.5)
        self.down = nn.Parameter(torch.randn(hidden, CLASSES) / hidden**0.5)

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "hpu":
            x = operators.rms_norm(x, self.scale)
            x = operators.silu(operators.product(x, self.up))
            return operators.row_softmax(operators.product(x, self.down))
        x = functional.rms_norm(x, self.scale.size(), self.scale, 1e-5)
        return (functional.silu(x @ self.up) @ self.down).softmax(-1)


class Training:
    """A model with its optimizer on a device. `step` returns the loss."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        model, x = Model(), torch.randn(200, 24)
        target = functional.one_hot(x[:, :CLASSES].argmax(1), CLASSES).float()
        self.model = model.to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5, momentum=0.9)
        self.x, self.target = x.to(device), target.to(device)

    def step(self) -> Tensor:
        self.optimizer.zero_grad(set_to_none=False)
        loss = -(self.target * (self.model(self.x) + 1e-6).log()).sum(1).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        htcore.mark_step()
        return loss.detach()


def main(steps: int = 20) -> None:
    operators.build()
    mine, theirs = Training("hpu"), Training("cpu")
    compared = []

    def compare(kind: str, step: int, loss: Tensor) -> None:
        expected = theirs.step()
        torch.testing.assert_close(loss.cpu(), expected, rtol=1e-3, atol=1e-4)
        compared.append(expected.item())
        if step % 5 == 0:
            print(f"{kind}, step {step}: loss {loss.item():.5f}, on the CPU {expected.item():.5f}")

    for step in range(steps):
        compare("eager", step, mine.step())
    graph = ht.hpu.HPUGraph()
    with ht.hpu.graph(graph):
        loss = mine.step()
    compare("captured", steps, loss)  # a capture runs what it records
    for step in range(steps + 1, 2 * steps):
        graph.replay()
        compare("graph", step, loss)
    assert compared[-1] < compared[0] / 2, compared
    print(f"the losses of {len(compared)} steps agree with the CPU's")


if __name__ == "__main__":
    main()
