"""Steps of optimizers on lists of tensors, in place, without gradients (`registry`). If PyTorch has the optimizer, the
results are the same."""

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import check, check_same_length, expect
from openhpu.interface.gaudi_ops.fp8 import is_fp8, largest, quantize


def optimizer_adamw(a: operators.OptimizerAdamw) -> None:
    """AdamW: w = w * weight_decay + neg_step_t * m / (sqrt(v) + epsilon), with the moments m and v of the gradients.

    `neg_step_t` and `weight_decay` (the factor 1 - learning rate * decay) hold one number each. Moments may be in a
    narrower dtype than the weights; with scales, one number for each, a moment is what is stored times its scale, and
    both are written. Raises RuntimeError for lists that differ in length. Source: the operator's schema; I. Loshchilov
    and F. Hutter, 2019.
    """
    _adamw(a, a.weight_decay.reshape(()) if a.has_weight_decay else None)


def optimizer_adamw_lazy(a: operators.OptimizerAdamwLazy) -> None:
    """`optimizer_adamw` as Gaudi's lazy mode spells it: the factor of weights is a number, 1 for none."""
    _adamw(a, _number(a.weight_decay, a.neg_step_t) if a.weight_decay != 1.0 else None)


def _number(value: float, like: Tensor) -> Tensor:
    return torch.full((), value, dtype=torch.float32, device=like.device)


def _adamw(a: operators.OptimizerAdamw | operators.OptimizerAdamwLazy, decay: Tensor | None) -> None:
    """`optimizer_adamw`. `decay`: the factor of the weights, 0-dim; None: 1."""
    gradients, weights, first, second = a.gradient_vec, a.weight_vec, a.exp_avg_vec, a.exp_avg_sq_vec
    scales = {"exp_avg_scales": a.exp_avg_scales, "exp_avg_sq_scales": a.exp_avg_sq_scales}
    given = {name: each for name, each in scales.items() if each is not None}
    check_same_length(
        a.operator, gradient_vec=gradients, weight_vec=weights, exp_avg_vec=first, exp_avg_sq_vec=second, **given
    )
    expect(a, "neg_step_t", a.neg_step_t.numel() == 1, "one number")
    if not gradients:
        return
    grads = [grad.to(_computing(weight)) for grad, weight in zip(gradients, weights, strict=True)]
    average = _load(first, weights, a.exp_avg_scales)
    square = _load(second, weights, a.exp_avg_sq_scales)
    torch._foreach_lerp_(average, grads, 1 - a.beta1)
    torch._foreach_mul_(square, a.beta2)
    torch._foreach_addcmul_(square, grads, grads, 1 - a.beta2)
    denominator = torch._foreach_sqrt(square)
    torch._foreach_add_(denominator, a.epsilon)
    torch._foreach_div_(denominator, a.neg_step_t.reshape(()))
    new = [weight.to(_computing(weight)) for weight in weights]
    if decay is not None:
        torch._foreach_mul_(new, decay)
    torch._foreach_addcdiv_(new, average, denominator)
    _store(weights, new, None)
    _store(first, average, a.exp_avg_scales)
    _store(second, square, a.exp_avg_sq_scales)


def _computing(weight: Tensor) -> torch.dtype:
    """The dtype in which the step of a weight is computed."""
    return weight.dtype if weight.dtype is torch.float64 else torch.float32


def _load(stored: list[Tensor], weights: list[Tensor], scales: list[Tensor] | None) -> list[Tensor]:
    """Moments in the dtype of the computation: the tensors themselves where they have it."""
    wide = [moment.to(_computing(weight)) for moment, weight in zip(stored, weights, strict=True)]
    return wide if scales is None else list(torch._foreach_mul(wide, [scale.reshape(()) for scale in scales]))


def _store(stored: list[Tensor], wide: list[Tensor], scales: list[Tensor] | None) -> None:
    """Write back the tensors that are not the stored ones themselves."""
    for i, (old, new) in enumerate(zip(stored, wide, strict=True)):
        if old is new:
            continue
        if scales is not None:
            top = largest(old.dtype) if is_fp8(old.dtype) else 1.0
            scale = new.abs().amax().clamp_min(torch.finfo(torch.float32).tiny) / top
            scales[i].copy_(scale.reshape(scales[i].shape))
            new = new / scale
        old.copy_(quantize(new, old.dtype) if is_fp8(old.dtype) else new)


def optimizer_ema(a: operators.OptimizerEma) -> None:
    """ema = decay * ema + (1 - decay) * input, for each pair. decay: one number."""
    check_same_length("optimizer_ema", model_inputs=a.model_inputs, updated_ema=a.updated_ema)
    share = 1.0 - a.decay.reshape(())
    for ema, value in zip(a.updated_ema, a.model_inputs, strict=True):
        ema.add_((value - ema) * share)


def optimizer_lars(a: operators.OptimizerLars) -> None:
    """grad = lr * trust * (grad + weight_decay * param).

    trust = eeta * |param| / (|grad| + weight_decay * |param| + eps), 1 where parameter or gradient is 0. Where the skip
    mask is 0, grad = lr * grad. Source: Y. You et
    al., 2017 (LARS).
    """
    _lars(a.operator, a.params, a.grads, a.skip_masks, a.eeta, a.weight_decay, a.eps, a.lr.reshape(()))


def lazy_lars(a: operators.LazyLars) -> None:
    """`optimizer_lars` as Gaudi's lazy mode spells it."""
    _lars(a.operator, a.params, a.grads, a.skip_masks, a.eeta, a.weight_decay, a.eps, a.lr_t.reshape(()))


def _lars(
    operator: str,
    params: list[Tensor],
    grads: list[Tensor],
    skip_masks: list[int],
    eeta: float,
    weight_decay: float,
    eps: float,
    rate: Tensor,
) -> None:
    check_same_length(operator, params=params, grads=grads)
    check(len(skip_masks) == len(params), operator, "skip_masks", skip_masks, f"{len(params)} numbers")
    for param, grad, keep in zip(params, grads, skip_masks, strict=True):
        if keep:
            weight_norm, grad_norm = torch.linalg.vector_norm(param), torch.linalg.vector_norm(grad)
            trust = eeta * weight_norm / (grad_norm + weight_decay * weight_norm + eps)
            trust = torch.where((weight_norm > 0) & (grad_norm > 0), trust, 1.0)
            grad.add_(param, alpha=weight_decay).mul_(trust * rate)
        else:
            grad.mul_(rate)


def optimizer_sgd(a: operators.OptimizerSgd) -> None:
    """weight = weight - learning_rate * (gradient + wd * weight). Source: torch.optim.SGD without momentum."""
    check_same_length(a.operator, gradients=a.gradients, weights_in=a.weights_in)
    rate = a.learning_rate.reshape(())
    for grad, weight in zip(a.gradients, a.weights_in, strict=True):
        weight.sub_(_decayed(grad, weight, a.wd) * rate)


def _decayed(grad: Tensor, weight: Tensor, decay: float) -> Tensor:
    return grad + decay * weight if decay else grad


def optimizer_sgd_momentum(a: operators.OptimizerSgdMomentum) -> None:
    """SGD with momentum; where epoch_num is 0 the buffers start as the gradients. Source: torch.optim.SGD."""
    check_same_length(a.operator, gradients=a.gradients, weights_in=a.weights_in, momentum_in=a.momentum_in)
    rate, momentum, first = a.learning_rate.reshape(()), a.mom.reshape(()), a.epoch_num.reshape(()) == 0
    for grad, weight, buffer in zip(a.gradients, a.weights_in, a.momentum_in, strict=True):
        step = _decayed(grad, weight, a.wd)
        buffer.copy_(torch.where(first, step, buffer * momentum + (1 - a.damp) * step))
        weight.sub_((step + momentum * buffer if a.nesterov else buffer) * rate)


def optimizer_resource_apply_momentum(a: operators.OptimizerResourceApplyMomentum) -> None:
    """buffer = momentum * buffer - dp, parameter = parameter + buffer; the first list alternates between the two.

    Source: TensorFlow's ResourceApplyMomentum, with gradients that were multiplied by the learning rate.
    """
    both, expected = a.params_momentum_buf_list, 2 * len(a.dp_list)
    expect(a, "params_momentum_buf_list", len(both) == expected, f"{expected} tensors, two for each of dp_list")
    for param, buffer, dp in zip(both[::2], both[1::2], a.dp_list, strict=True):
        buffer.mul_(a.momentum).sub_(dp)
        param.add_(buffer)


def fused_adagrad(a: operators.FusedAdagrad) -> None:
    """Adagrad; `epoch_num`: steps so far, 0 at first. Source: torch.optim.Adagrad."""
    check_same_length(a.operator, gradients=a.gradients, weights_in=a.weights_in, variances_in=a.variances_in)
    rate = a.learning_rate.reshape(()) / (1 + a.epoch_num.reshape(()) * a.lrd)
    for grad, weight, variance in zip(a.gradients, a.weights_in, a.variances_in, strict=True):
        step = _decayed(grad, weight, a.wd)
        variance.addcmul_(step, step)
        weight.sub_(rate * step / (variance.sqrt() + a.eps))


def optimizer_lamb_fused_norm(a: operators.OptimizerLambFusedNorm) -> Tensor:
    """max(1, |gradients| / max_norm), by which gradients are divided; a tensor [1] in float32.

    Squares are added in float64: a sum of a million of them in float32 is off by more than 1e-5.
    """
    expect(a, "grad", len(a.grad) > 0, "at least one tensor")
    norms = torch._foreach_norm(a.grad, 2.0, dtype=torch.float64)
    total = torch.linalg.vector_norm(torch.stack(norms)) / a.max_norm
    return total.clamp_min(1.0).reshape(1).to(torch.float32)


def optimizer_lamb_phase1(a: operators.OptimizerLambPhase1) -> None:
    """LAMB's moments, Adam steps (with weight decay added) and norms of weights and steps. Source: Y. You et al., 2020.

    Gradients are divided by `clip_global_grad_norm`. All lists are of one length; norms have one number.
    """
    check_same_length(
        a.operator,
        gradients=a.gradients,
        weights=a.weights,
        exp_avg=a.exp_avg,
        exp_avg_sq=a.exp_avg_sq,
        out_weight_norms=a.out_weight_norms,
        out_adam_norms=a.out_adam_norms,
        out_adam_steps=a.out_adam_steps,
    )
    share = 1 - a.beta1 if a.grad_averaging else 1.0
    first_correction, second_correction = a.bias_correction1.reshape(()), a.bias_correction2.reshape(())
    for i, weight in enumerate(a.weights):
        grad = a.gradients[i] / a.clip_global_grad_norm.reshape(())
        a.exp_avg[i].mul_(a.beta1).add_(grad, alpha=share)
        a.exp_avg_sq[i].mul_(a.beta2).addcmul_(grad, grad, value=1 - a.beta2)
        step = (a.exp_avg[i] / first_correction) / ((a.exp_avg_sq[i] / second_correction).sqrt() + a.epsilon)
        if a.weight_decay:
            step = step + a.weight_decay * weight
        a.out_adam_steps[i].copy_(step)
        for norms, values in ((a.out_adam_norms, step), (a.out_weight_norms, weight)):
            norms[i].copy_(torch.linalg.vector_norm(values, dtype=torch.float64).reshape(norms[i].shape))


def optimizer_lamb_phase2(a: operators.OptimizerLambPhase2) -> None:
    """weight += neg_step * trust * step; trust: weight norm / step norm where both are positive, else 1.

    Without weight decay trust is 1 unless `use_lamb`, as in NVIDIA's LAMB.
    """
    check_same_length(
        a.operator, weights=a.weights, adam_norms=a.adam_norms, weight_norms=a.weight_norms, adam_steps=a.adam_steps
    )
    step = a.neg_step.reshape(())
    for i, weight in enumerate(a.weights):
        if a.wd != 0.0 or a.use_lamb:
            adam, norm = a.adam_norms[i].reshape(()), a.weight_norms[i].reshape(())
            trust = torch.where((adam > 0) & (norm > 0), norm / adam, 1.0)
            weight.add_(a.adam_steps[i] * (trust * step))
        else:
            weight.add_(a.adam_steps[i] * step)
