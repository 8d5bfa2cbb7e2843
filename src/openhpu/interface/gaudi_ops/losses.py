"""Connectionist temporal classification."""

from typing import NamedTuple

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import check, expect

REDUCTIONS = ("none", "mean", "sum")


class _Batch(NamedTuple):
    """The inputs of both directions: [T, batch, classes], [batch, S] or all in one, [batch] and [batch]."""

    log_probs: Tensor
    targets: Tensor
    input_lengths: Tensor
    target_lengths: Tensor


def _batch_of(a: operators.CtcLossCustom | operators.CtcLossCustomBackward) -> _Batch:
    """The inputs; those of one entry as a batch."""
    if a.log_probs.dim() == 2:
        lengths = a.input_lengths.reshape(1), a.target_lengths.reshape(1)
        return _Batch(a.log_probs.unsqueeze(1), a.targets.reshape(1, -1), *lengths)
    return _Batch(a.log_probs, a.targets, a.input_lengths, a.target_lengths)


def _check_inputs(operator: str, given: _Batch, blank: int) -> None:
    targets = given.targets
    _, batch, classes = given.log_probs.shape
    check(given.log_probs.is_floating_point(), operator, "log_probs", given.log_probs, "a floating-point tensor")
    for argument, lengths in (("input_lengths", given.input_lengths), ("target_lengths", given.target_lengths)):
        fits = not lengths.is_floating_point() and lengths.numel() == batch
        check(fits, operator, argument, lengths, f"integers [{batch}], one for each entry of the batch")
    fits = not targets.is_floating_point() and (targets.dim() == 1 or list(targets.shape[:1]) == [batch])
    expected = f"integers [{batch}, S], or all in one dimension"
    check(fits and targets.dim() in (1, 2), operator, "targets", targets, expected)
    check(0 <= blank < classes, operator, "blank", blank, f"a class, 0 to {classes - 1}")


def _losses(given: _Batch, blank: int, zero_infinity: bool) -> tuple[Tensor, Tensor]:
    return torch._ctc_loss(*given, blank, zero_infinity)


def ctc_loss_custom(a: operators.CtcLossCustom) -> tuple[Tensor, Tensor]:
    """torch.nn.functional.ctc_loss, and log alpha, [batch, T, 2 * longest target + 1], of which the backward is made.

    log_probs: [T, batch, classes]; targets: [batch, S] or all in one; lengths: [batch]; reduction: 0 none, 1 mean,
    2 sum. Without a batch: log_probs [T, classes], targets [S], lengths of one number each; the loss is 0-dim.
    """
    expect(a, "reduction", a.reduction in (0, 1, 2), "0 (none), 1 (mean) or 2 (sum)")
    expect(a, "log_probs", a.log_probs.dim() in (2, 3), "[length, batch, classes]")
    given = _batch_of(a)
    _check_inputs(a.operator, given, a.blank)
    losses, log_alpha = _losses(given, a.blank, a.zero_infinity)
    if a.zero_infinity:
        losses = torch.where(torch.isinf(losses), 0.0, losses)
    if a.reduction == 1:
        losses = (losses / given.target_lengths.to(losses).clamp_min(1)).mean()
    elif a.reduction == 2:
        losses = losses.sum()
    return losses.reshape(()) if a.log_probs.dim() == 2 else losses, log_alpha


def ctc_loss_custom_backward(a: operators.CtcLossCustomBackward) -> Tensor:
    """The gradient of log_probs; `grad` has the shape of the loss, `neg_log_likelihood` is the loss or one for each."""
    given, alone = _batch_of(a), a.log_probs.dim() == 2
    batch = given.log_probs.shape[1]
    losses, log_alpha = a.neg_log_likelihood, a.log_alpha
    if alone:
        losses = losses.reshape([1] if a.reduction == 0 else [])
    if losses.dim() == 0 or losses.shape[0] != batch:  # reduced: each sample's loss must be computed again
        losses, log_alpha = _losses(given, a.blank, a.zero_infinity)
    each = a.grad.expand(batch) if a.grad.dim() == 0 else a.grad
    if a.reduction == 1:
        each = each / (batch * given.target_lengths.to(a.grad).clamp_min(1))
    found: Tensor = torch.ops.aten._ctc_loss_backward(each, *given, losses, log_alpha, a.blank, a.zero_infinity)
    return found.squeeze(1) if alone else found
