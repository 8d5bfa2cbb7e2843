"""Connectionist temporal classification."""

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import expect
from openhpu.interface.gaudi_ops.registry import Arguments

REDUCTIONS = ("none", "mean", "sum")


def _check_inputs(a: Arguments) -> None:
    targets = a.targets
    _, batch, classes = a.log_probs.shape
    expect(a, "log_probs", a.log_probs.is_floating_point(), "a floating-point tensor")
    for argument in ("input_lengths", "target_lengths"):
        lengths = getattr(a, argument)
        fits = not lengths.is_floating_point() and lengths.numel() == batch
        expect(a, argument, fits, f"integers [{batch}], one for each entry of the batch")
    fits = not targets.is_floating_point() and (targets.dim() == 1 or list(targets.shape[:1]) == [batch])
    expect(a, "targets", fits and targets.dim() in (1, 2), f"integers [{batch}, S], or all in one dimension")
    expect(a, "blank", 0 <= a.blank < classes, f"a class, 0 to {classes - 1}")


def _as_batch(a: Arguments) -> None:
    """The arguments of one entry as those of a batch."""
    a.log_probs, a.targets = a.log_probs.unsqueeze(1), a.targets.reshape(1, -1)
    a.input_lengths, a.target_lengths = a.input_lengths.reshape(1), a.target_lengths.reshape(1)


def _losses(a: Arguments) -> tuple[Tensor, Tensor]:
    return torch._ctc_loss(a.log_probs, a.targets, a.input_lengths, a.target_lengths, a.blank, a.zero_infinity)


def ctc_loss_custom(a: Arguments) -> tuple[Tensor, Tensor]:
    """torch.nn.functional.ctc_loss, and log alpha, [batch, T, 2 * longest target + 1], of which the backward is made.

    log_probs: [T, batch, classes]; targets: [batch, S] or all in one; lengths: [batch]; reduction: 0 none, 1 mean,
    2 sum. Without a batch: log_probs [T, classes], targets [S], lengths of one number each; the loss is 0-dim.
    """
    expect(a, "reduction", a.reduction in (0, 1, 2), "0 (none), 1 (mean) or 2 (sum)")
    expect(a, "log_probs", a.log_probs.dim() in (2, 3), "[length, batch, classes]")
    if a.log_probs.dim() == 2:
        _as_batch(a)
        loss, log_alpha = ctc_loss_custom(a)
        return loss.reshape(()), log_alpha
    _check_inputs(a)
    losses, log_alpha = _losses(a)
    if a.zero_infinity:
        losses = torch.where(torch.isinf(losses), 0.0, losses)
    if a.reduction == 1:
        return (losses / a.target_lengths.to(losses).clamp_min(1)).mean(), log_alpha
    return losses.sum() if a.reduction == 2 else losses, log_alpha


def ctc_loss_custom_backward(a: Arguments) -> Tensor:
    """The gradient of log_probs; `grad` has the shape of the loss, `neg_log_likelihood` is the loss or one for each."""
    if a.log_probs.dim() == 2:
        _as_batch(a)
        a.neg_log_likelihood = a.neg_log_likelihood.reshape([1] if a.reduction == 0 else [])
        return ctc_loss_custom_backward(a).squeeze(1)
    batch = a.log_probs.shape[1]
    losses, log_alpha = a.neg_log_likelihood, a.log_alpha
    if losses.dim() == 0 or losses.shape[0] != batch:  # reduced: each sample's loss must be computed again
        losses, log_alpha = _losses(a)
    each = a.grad.expand(batch) if a.grad.dim() == 0 else a.grad
    if a.reduction == 1:
        each = each / (batch * a.target_lengths.to(a.grad).clamp_min(1))
    return torch.ops.aten._ctc_loss_backward(
        each, a.log_probs, a.targets, a.input_lengths, a.target_lengths, losses, log_alpha, a.blank, a.zero_infinity
    )
