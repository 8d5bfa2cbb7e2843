"""Connectionist temporal classification."""

from __future__ import annotations

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import check
from openhpu.interface.gaudi_ops.registry import operator

REDUCTIONS = ("none", "mean", "sum")


def _check_inputs(
    name: str, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> None:
    _, batch, classes = log_probs.shape
    check(log_probs.is_floating_point(), name, "log_probs", log_probs, "a floating-point tensor")
    for argument, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        fits = not lengths.is_floating_point() and lengths.numel() == batch
        check(fits, name, argument, lengths, f"integers [{batch}], one for each entry of the batch")
    fits = not targets.is_floating_point() and (targets.dim() == 1 or list(targets.shape[:1]) == [batch])
    check(fits and targets.dim() in (1, 2), name, "targets", targets, f"integers [{batch}, S], or all in one dimension")
    check(0 <= blank < classes, name, "blank", blank, f"a class, 0 to {classes - 1}")


@operator(
    "ctc_loss_custom(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, "
    "int reduction, bool zero_infinity) -> (Tensor, Tensor)",
    of="_ctc_loss, mean or sum",
)
def ctc_loss_custom(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int, reduction: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """torch.nn.functional.ctc_loss, and log alpha, [batch, T, 2 * longest target + 1], of which the backward is made.

    log_probs: [T, batch, classes]; targets: [batch, S] or all in one; lengths: [batch]; reduction: 0 none, 1 mean,
    2 sum. Without a batch: log_probs [T, classes], targets [S], lengths of one number each; the loss is 0-dim.
    """
    check(reduction in (0, 1, 2), "ctc_loss_custom", "reduction", reduction, "0 (none), 1 (mean) or 2 (sum)")
    check(log_probs.dim() in (2, 3), "ctc_loss_custom", "log_probs", log_probs, "[length, batch, classes]")
    if log_probs.dim() == 2:
        one = ctc_loss_custom(
            log_probs.unsqueeze(1), targets.reshape(1, -1), input_lengths.reshape(1), target_lengths.reshape(1), blank,
            reduction, zero_infinity,
        )  # fmt: skip
        return one[0].reshape(()), one[1]
    _check_inputs("ctc_loss_custom", log_probs, targets, input_lengths, target_lengths, blank)
    losses, log_alpha = torch._ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    if zero_infinity:
        losses = torch.where(torch.isinf(losses), 0.0, losses)
    if reduction == 1:
        return (losses / target_lengths.to(losses).clamp_min(1)).mean(), log_alpha
    return losses.sum() if reduction == 2 else losses, log_alpha


@operator(
    "ctc_loss_custom_backward(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths, "
    "Tensor target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, int reduction, bool zero_infinity)"
    " -> Tensor",
    of="_ctc_loss, _ctc_loss_backward",
)
def ctc_loss_custom_backward(
    grad: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    neg_log_likelihood: Tensor, log_alpha: Tensor, blank: int, reduction: int, zero_infinity: bool,
) -> Tensor:  # fmt: skip
    """The gradient of log_probs; `grad` has the shape of the loss, `neg_log_likelihood` is the loss or one for each."""
    if log_probs.dim() == 2:
        return ctc_loss_custom_backward(
            grad, log_probs.unsqueeze(1), targets.reshape(1, -1), input_lengths.reshape(1), target_lengths.reshape(1),
            neg_log_likelihood.reshape([1] if reduction == 0 else []), log_alpha, blank, reduction, zero_infinity,
        ).squeeze(1)  # fmt: skip
    batch = log_probs.shape[1]
    losses = neg_log_likelihood
    if losses.dim() == 0 or losses.shape[0] != batch:  # reduced: each sample's loss must be computed again
        losses, log_alpha = torch._ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    each = grad.expand(batch) if grad.dim() == 0 else grad
    if reduction == 1:
        each = each / (batch * target_lengths.to(grad).clamp_min(1))
    return torch.ops.aten._ctc_loss_backward(
        each, log_probs, targets, input_lengths, target_lengths, losses, log_alpha, blank, zero_infinity
    )
