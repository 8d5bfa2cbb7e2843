"""Caches of keys and values, gathering, interleaving; products of matrices; fast mathematics."""

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import check, check_same_length


def kv_reorder(self: Tensor, start: Tensor, end: Tensor, beam_idx: Tensor) -> Tensor:
    """The cache whose positions from `start` to before `end` come from the beams that go on.

    self: [batch, 4, ..., length, dimension], of any strides: the second dimension is that of the beams. start, end:
    integers [batch] or [1]. beam_idx: uint8 [batch], the beams that four beams continue, two bits each, the first in
    the highest. Beams may also lie in the first dimension: [batch * 4, ..., length, dimension], with as many bytes, or
    with integers [batch * 4], entries of the first dimension. Raises RuntimeError for others.
    """
    name, count = "kv_reorder", beam_idx.numel()
    check(self.dim() >= 4, name, "self", self, "[batch, 4, ..., length, dimension]")
    whole, packed = beam_idx.reshape(-1), beam_idx.dtype is torch.uint8
    fits = not beam_idx.is_floating_point() and beam_idx.dtype is not torch.bool
    check(fits, name, "beam_idx", beam_idx, "a uint8 tensor, four beams in a byte, or integers")
    if packed and list(self.shape[:2]) == [count, 4]:
        rows, entries = self.reshape(-1, *self.shape[2:]), count
    else:
        rows, entries = self, self.shape[0]
        batch = f"{self.shape[0] // 4} bytes, or {self.shape[0]} where the second dimension has 4 entries"
        expected = batch if packed else f"{entries} integers, one for each entry"
        check(count * (4 if packed else 1) == entries, name, "beam_idx", beam_idx, expected)
    source = _unpacked_beams(whole) if packed else whole.long()
    moved = rows.index_select(0, source).reshape(self.shape)
    length = self.shape[-2]
    positions = torch.arange(length, device=self.device)
    inside = (positions >= _each(name, "start", start, entries)) & (positions < _each(name, "end", end, entries))
    return torch.where(inside.reshape(-1, *[1] * (self.dim() - 3), length, 1), moved, self)


def _unpacked_beams(packed: Tensor) -> Tensor:
    """The entries that the beams of each byte continue, [4 * bytes]: two bits each, counted from the byte's first."""
    shifts = torch.arange(6, -1, -2, dtype=torch.int64, device=packed.device)
    within = (packed.unsqueeze(-1).long() >> shifts) & 3
    return (within + 4 * torch.arange(packed.numel(), device=packed.device).unsqueeze(-1)).reshape(-1)


def _each(name: str, argument: str, bound: Tensor, rows: int) -> Tensor:
    """A bound for each row of the cache, [rows, 1] or [1, 1]."""
    count = bound.numel()
    fits = count > 0 and rows % count == 0 and not bound.is_floating_point()
    check(fits, name, argument, bound, f"a number of integers that divides {rows}")
    bound = bound.reshape(-1, 1)
    return bound if count == 1 else bound.repeat_interleave(rows // count, 0)


def kv_reorder_(self: Tensor, start: Tensor, end: Tensor, beam_idx: Tensor) -> Tensor:
    """`kv_reorder` in place."""
    return self.copy_(kv_reorder(self, start, end, beam_idx))


def in_place_interleave(self: Tensor) -> Tensor:
    """Each first entry of four, four times: the state of beams at their start, when all are the first one."""
    check(self.dim() > 0 and self.shape[0] % 4 == 0, "in_place_interleave", "self", self, "a multiple of 4 entries")
    return self[: self.shape[0] // 4].repeat_interleave(4, 0)


def in_place_interleave_(self: Tensor) -> Tensor:
    """The first quarter of the entries, each repeated four times, over all of them."""
    return self.copy_(in_place_interleave(self))


def plain_index(self: Tensor, indices: list[Tensor]) -> Tensor:
    """self[indices], with an integer tensor for each of the first dimensions."""
    for index in indices:
        fits = not index.is_floating_point() and index.dtype is not torch.bool
        check(fits, "plain_index", "indices", index, "integer tensors")
    return self[tuple(index.long() for index in indices)]


# As exact as PyTorch's: Gaudi's forms trade digits for speed.
exp_fast_math, sqrt_fast_math, rsqrt_fast_math = torch.exp, torch.sqrt, torch.rsqrt
linear, matmul = torch.nn.functional.linear, torch.matmul
# Gaudi's `weight_permutation` gives the copy another layout of memory, which tensors here do not need.
weight_permutation = identity = torch.clone


def linear_backward(a: operators.LinearBackward) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of linear's input, weight and bias, each if its mask is set, else an empty tensor."""
    x, grad, wanted = a.self, a.grad_output, a.output_mask
    nothing = torch.empty(0, dtype=x.dtype, device=x.device)
    rows = grad.reshape(-1, grad.shape[-1])
    grad_input = torch.matmul(grad, a.weight) if wanted[0] else nothing
    grad_weight = torch.matmul(rows.t(), x.reshape(-1, x.shape[-1])) if wanted[1] else nothing
    return grad_input, grad_weight, rows.sum(0) if wanted[2] else nothing


def matmul_bwd(grad_out: Tensor, self: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the operands of a matmul."""
    left = self.unsqueeze(0) if self.dim() == 1 else self
    right = other.unsqueeze(-1) if other.dim() == 1 else other
    grad = grad_out.unsqueeze(-1) if other.dim() == 1 else grad_out
    grad = grad.unsqueeze(-2) if self.dim() == 1 else grad
    grad_self = torch.matmul(grad, right.transpose(-1, -2)).sum_to_size(left.shape).reshape(self.shape)
    grad_other = torch.matmul(left.transpose(-1, -2), grad).sum_to_size(right.shape).reshape(other.shape)
    return grad_self, grad_other


def masked_batch_gemm(a: Tensor, b: Tensor, mask_a: Tensor, mask_b: Tensor, trans_a: bool, trans_b: bool) -> Tensor:
    """op(a) @ op(b) + op(mask_a) @ op(mask_b): a product whose masks are more columns of it; op may transpose."""
    a, mask_a = (x.mT if trans_a else x for x in (a, mask_a))
    b, mask_b = (x.mT if trans_b else x for x in (b, mask_b))
    return torch.matmul(a, b) + torch.matmul(mask_a, mask_b)


def accumulate_grads_(a: operators.AccumulateGrads_) -> None:
    """Adds each gradient to the .grad of its variable, which it becomes where there is none."""
    check_same_length(a.operator, variables=a.variables, new_grads=a.new_grads)
    with torch.no_grad():
        for variable, grad in zip(a.variables, a.new_grads, strict=True):
            if variable.grad is None:
                variable.grad = grad.detach().clone()
            else:
                variable.grad.add_(grad)


def custom_foreach_add_(a: operators.CustomForeachAdd_) -> None:
    """torch._foreach_add_."""
    check_same_length(a.operator, self=a.self, other=a.other)
    torch._foreach_add_(a.self, a.other)
