"""Optimizers of embeddings: only the rows that a batch has named change."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from openhpu.interface.hpex.optimizers.lists import ListOptimizer, number


def rows_of(grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The different rows that a gradient names, their values, and how many they are."""
    if not grad.is_sparse:
        raise RuntimeError(
            "a gradient is dense; expected sparse ones, of torch.nn.EmbeddingBag(..., sparse=True) and the like"
        )
    grad = grad.coalesce()
    indices = grad.indices()[0]
    return indices, grad.values(), torch.full((1,), indices.shape[0], dtype=torch.int64, device=indices.device)


class SparseSGD(ListOptimizer):
    """torch.optim.SGD for sparse gradients, with momentum on the rows that are named. Raises ValueError."""

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, momentum: float = 0.0, nesterov: bool = False
    ) -> None:
        super().__init__(params, lr=lr, momentum=momentum, nesterov=nesterov)

    def step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """The step of the named rows."""
        for param, moments, grad in zip(params, self.states(params, "momentum_buffer"), grads, strict=True):
            indices, values, count = rows_of(grad)
            torch.ops.hpu.habanaOptimizerSparseSgd(
                values,
                param,
                moments,
                indices,
                number(group["lr"], param),
                count,
                group["momentum"],
                group["nesterov"],
            )


class SparseAdagrad(ListOptimizer):
    """torch.optim.Adagrad for sparse gradients. Raises ValueError for numbers out of range."""

    def __init__(self, params: Iterable[Any], lr: float | Tensor = 1e-2) -> None:
        super().__init__(params, lr=lr)

    def step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """The step of the named rows."""
        for param, sums, grad in zip(params, self.states(params, "sum"), grads, strict=True):
            indices, values, count = rows_of(grad)
            torch.ops.hpu.habanaOptimizerSparseAdagrad(values, param, sums, indices, number(group["lr"], param), count)
