"""Steps of optimizers on lists of tensors, in place. If PyTorch has the optimizer, the results are the same."""

from __future__ import annotations

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import check, check_same_length
from openhpu.interface.gaudi_ops.fp8 import is_fp8, largest, quantize
from openhpu.interface.gaudi_ops.registry import operator

_ADAMW = (
    "Tensor[] gradient_vec, Tensor(a!)[] weight_vec, Tensor(b!)[] exp_avg_vec, Tensor(c!)[] exp_avg_sq_vec, "
    "Tensor neg_step_t, float beta1, float beta2, float epsilon"
)
_SCALES = "Tensor(d!)[]? exp_avg_scales=None, Tensor(e!)[]? exp_avg_sq_scales=None"
_ADAMW_OF = "_foreach_lerp_, _foreach_mul_, _foreach_addcmul_, _foreach_sqrt, _foreach_add_, _foreach_addcdiv_"


@operator(
    f"optimizer_adamw({_ADAMW}, Tensor weight_decay, bool has_weight_decay, {_SCALES}) -> ()",
    f"habanaOptimizerAdamW({_ADAMW}, Tensor weight_decay, bool has_weight_decay) -> ()",
    of=_ADAMW_OF,
)
def optimizer_adamw(
    gradient_vec: list[Tensor], weight_vec: list[Tensor], exp_avg_vec: list[Tensor], exp_avg_sq_vec: list[Tensor],
    neg_step_t: Tensor, beta1: float, beta2: float, epsilon: float, weight_decay: Tensor, has_weight_decay: bool,
    exp_avg_scales: list[Tensor] | None = None, exp_avg_sq_scales: list[Tensor] | None = None,
) -> None:  # fmt: skip
    """AdamW: w = w * weight_decay + neg_step_t * m / (sqrt(v) + epsilon), with the moments m and v of the gradients.

    `neg_step_t` and `weight_decay` (the factor 1 - learning rate * decay) hold one number each. Moments may be in a
    narrower dtype than the weights; with scales, one number for each, a moment is what is stored times its scale, and
    both are written. Raises RuntimeError for lists that differ in length. Source: the operator's schema; I. Loshchilov
    and F. Hutter, 2019.
    """
    lists = {
        "gradient_vec": gradient_vec, "weight_vec": weight_vec, "exp_avg_vec": exp_avg_vec,
        "exp_avg_sq_vec": exp_avg_sq_vec,
    }  # fmt: skip
    for argument, scales in (("exp_avg_scales", exp_avg_scales), ("exp_avg_sq_scales", exp_avg_sq_scales)):
        if scales is not None:
            lists[argument] = scales
    check_same_length("optimizer_adamw", "gradient_vec", **lists)
    check(neg_step_t.numel() == 1, "optimizer_adamw", "neg_step_t", neg_step_t, "one number")
    if not gradient_vec:
        return
    with torch.no_grad():
        grads = [grad.to(_computing(weight)) for grad, weight in zip(gradient_vec, weight_vec, strict=True)]
        first = _load(exp_avg_vec, weight_vec, exp_avg_scales)
        second = _load(exp_avg_sq_vec, weight_vec, exp_avg_sq_scales)
        torch._foreach_lerp_(first, grads, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, grads, grads, 1 - beta2)
        denominator = torch._foreach_sqrt(second)
        torch._foreach_add_(denominator, epsilon)
        torch._foreach_div_(denominator, neg_step_t.reshape(()))
        weights = [weight.to(_computing(weight)) for weight in weight_vec]
        if has_weight_decay:
            torch._foreach_mul_(weights, weight_decay.reshape(()))
        torch._foreach_addcdiv_(weights, first, denominator)
        _store(weight_vec, weights, None)
        _store(exp_avg_vec, first, exp_avg_scales)
        _store(exp_avg_sq_vec, second, exp_avg_sq_scales)


@operator(f"optimizer_adamw.lazy({_ADAMW}, float weight_decay, {_SCALES}) -> ()", of=_ADAMW_OF)
def optimizer_adamw_lazy(
    gradient_vec: list[Tensor], weight_vec: list[Tensor], exp_avg_vec: list[Tensor], exp_avg_sq_vec: list[Tensor],
    neg_step_t: Tensor, beta1: float, beta2: float, epsilon: float, weight_decay: float,
    exp_avg_scales: list[Tensor] | None = None, exp_avg_sq_scales: list[Tensor] | None = None,
) -> None:  # fmt: skip
    """`optimizer_adamw` as Gaudi's lazy mode spells it: the factor of weights is a number, 1 for none."""
    factor = torch.full((), weight_decay, dtype=torch.float32, device=neg_step_t.device)
    optimizer_adamw(
        gradient_vec, weight_vec, exp_avg_vec, exp_avg_sq_vec, neg_step_t, beta1, beta2, epsilon, factor,
        weight_decay != 1.0, exp_avg_scales, exp_avg_sq_scales,
    )  # fmt: skip


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


_EMA = "Tensor[] model_inputs, Tensor(a!)[] updated_ema, Tensor decay) -> ()"


@operator(f"optimizer_ema({_EMA}", f"habanaOptimizerFusedEMA({_EMA}", of="_foreach_lerp_")
def optimizer_ema(model_inputs: list[Tensor], updated_ema: list[Tensor], decay: Tensor) -> None:
    """ema = decay * ema + (1 - decay) * input, for each pair. decay: one number."""
    check_same_length("optimizer_ema", "model_inputs", model_inputs=model_inputs, updated_ema=updated_ema)
    with torch.no_grad():
        share = 1.0 - decay.reshape(())
        for ema, value in zip(updated_ema, model_inputs, strict=True):
            ema.add_((value - ema) * share)


_LARS = "int[] skip_masks, float eeta, float weight_decay, float eps"


@operator(
    f"optimizer_lars(Tensor[] params, Tensor(a!)[] grads, {_LARS}, Tensor lr) -> ()", of="_foreach_norm, mul, add"
)
def optimizer_lars(
    params: list[Tensor], grads: list[Tensor], skip_masks: list[int], eeta: float, weight_decay: float, eps: float,
    lr: Tensor,
) -> None:  # fmt: skip
    """grad = lr * trust * (grad + weight_decay * param).

    trust = eeta * |param| / (|grad| + weight_decay * |param| + eps), 1 where parameter or gradient is 0. Where the skip
    mask is 0, grad = lr * grad. Source: Y. You et
    al., 2017 (LARS).
    """
    check_same_length("optimizer_lars", "params", params=params, grads=grads)
    check(len(skip_masks) == len(params), "optimizer_lars", "skip_masks", skip_masks, f"{len(params)} numbers")
    with torch.no_grad():
        rate = lr.reshape(())
        for param, grad, keep in zip(params, grads, skip_masks, strict=True):
            if keep:
                weight_norm, grad_norm = torch.linalg.vector_norm(param), torch.linalg.vector_norm(grad)
                trust = eeta * weight_norm / (grad_norm + weight_decay * weight_norm + eps)
                trust = torch.where((weight_norm > 0) & (grad_norm > 0), trust, 1.0)
                grad.add_(param, alpha=weight_decay).mul_(trust * rate)
            else:
                grad.mul_(rate)


@operator(
    f"habanaOptimizerLars(Tensor[] params, Tensor(a!)[] grads, Tensor lr_t, {_LARS}) -> ()",
    of="optimizer_lars",
)
def lazy_lars(
    params: list[Tensor], grads: list[Tensor], lr_t: Tensor, skip_masks: list[int], eeta: float, weight_decay: float,
    eps: float,
) -> None:  # fmt: skip
    """`optimizer_lars` as Gaudi's lazy mode spells it."""
    optimizer_lars(params, grads, skip_masks, eeta, weight_decay, eps, lr_t)


_SGD = (
    "Tensor[] gradients, Tensor(a!)[] weights_in, Tensor(b!) learning_rate, float wd, float mom, float damp, "
    "bool nesterov) -> ()"
)


@operator(f"optimizer_sgd({_SGD}", f"habanaOptimizerSgd({_SGD}", of="mul, add, sub_")
def optimizer_sgd(
    gradients: list[Tensor], weights_in: list[Tensor], learning_rate: Tensor, wd: float, mom: float, damp: float,
    nesterov: bool,
) -> None:  # fmt: skip
    """weight = weight - learning_rate * (gradient + wd * weight). Source: torch.optim.SGD without momentum."""
    check_same_length("optimizer_sgd", "gradients", gradients=gradients, weights_in=weights_in)
    with torch.no_grad():
        rate = learning_rate.reshape(())
        for grad, weight in zip(gradients, weights_in, strict=True):
            weight.sub_((grad + wd * weight if wd else grad) * rate)


_MOMENTUM = (
    "Tensor[] gradients, Tensor(a!)[] weights_in, Tensor(b!)[] momentum_in, Tensor epoch_num, "
    "Tensor(c!) learning_rate, Tensor(d!) mom, float wd, float damp, bool nesterov) -> ()"
)


@operator(f"optimizer_sgd_momentum({_MOMENTUM}", f"habanaOptimizerSgdMomentum({_MOMENTUM}", of="mul, add, where, sub_")
def optimizer_sgd_momentum(
    gradients: list[Tensor], weights_in: list[Tensor], momentum_in: list[Tensor], epoch_num: Tensor,
    learning_rate: Tensor, mom: Tensor, wd: float, damp: float, nesterov: bool,
) -> None:  # fmt: skip
    """SGD with momentum; where epoch_num is 0 the buffers start as the gradients. Source: torch.optim.SGD."""
    check_same_length(
        "optimizer_sgd_momentum", "gradients", gradients=gradients, weights_in=weights_in, momentum_in=momentum_in
    )
    with torch.no_grad():
        rate, momentum, first = learning_rate.reshape(()), mom.reshape(()), epoch_num.reshape(()) == 0
        for grad, weight, buffer in zip(gradients, weights_in, momentum_in, strict=True):
            step = grad + wd * weight if wd else grad
            buffer.copy_(torch.where(first, step, buffer * momentum + (1 - damp) * step))
            weight.sub_((step + momentum * buffer if nesterov else buffer) * rate)


@operator(
    "optimizer_resource_apply_momentum(Tensor(a!)[] params_momentum_buf_list, Tensor[] dp_list, float momentum) -> ()",
    of="mul_, sub_, add_",
)
def optimizer_resource_apply_momentum(
    params_momentum_buf_list: list[Tensor], dp_list: list[Tensor], momentum: float
) -> None:
    """buffer = momentum * buffer - dp, parameter = parameter + buffer; the first list alternates between the two.

    Source: TensorFlow's ResourceApplyMomentum, with gradients that were multiplied by the learning rate.
    """
    check(
        len(params_momentum_buf_list) == 2 * len(dp_list), "optimizer_resource_apply_momentum",
        "params_momentum_buf_list", params_momentum_buf_list, f"{2 * len(dp_list)} tensors, two for each of dp_list",
    )  # fmt: skip
    with torch.no_grad():
        for i, dp in enumerate(dp_list):
            param, buffer = params_momentum_buf_list[2 * i : 2 * i + 2]
            buffer.mul_(momentum).sub_(dp)
            param.add_(buffer)


_ADAGRAD = (
    "Tensor[] gradients, Tensor(a!)[] weights_in, Tensor(b!)[] variances_in, Tensor epoch_num, "
    "Tensor(c!) learning_rate, float wd, float lrd, float eps) -> ()"
)


@operator(f"habanaOptimizerFusedAdagrad({_ADAGRAD}", of="mul, add, addcmul_, sqrt, sub_")
def fused_adagrad(
    gradients: list[Tensor], weights_in: list[Tensor], variances_in: list[Tensor], epoch_num: Tensor,
    learning_rate: Tensor, wd: float, lrd: float, eps: float,
) -> None:  # fmt: skip
    """Adagrad; `epoch_num`: steps so far, 0 at first. Source: torch.optim.Adagrad."""
    check_same_length(
        "habanaOptimizerFusedAdagrad", "gradients", gradients=gradients, weights_in=weights_in,
        variances_in=variances_in,
    )  # fmt: skip
    with torch.no_grad():
        rate = learning_rate.reshape(()) / (1 + epoch_num.reshape(()) * lrd)
        for grad, weight, variance in zip(gradients, weights_in, variances_in, strict=True):
            step = grad + wd * weight if wd else grad
            variance.addcmul_(step, step)
            weight.sub_(rate * step / (variance.sqrt() + eps))


@operator("optimizer_lamb_fused_norm(Tensor[] grad, float max_norm) -> Tensor", of="_foreach_norm, vector_norm, clamp")
def optimizer_lamb_fused_norm(grad: list[Tensor], max_norm: float) -> Tensor:
    """max(1, |gradients| / max_norm), by which gradients are divided; a tensor [1] in float32."""
    check(len(grad) > 0, "optimizer_lamb_fused_norm", "grad", grad, "at least one tensor")
    with torch.no_grad():
        norms = torch._foreach_norm(grad, 2.0, dtype=torch.float32)
        total = torch.linalg.vector_norm(torch.stack(list(norms)))
        return (total / max_norm).clamp_min(1.0).reshape(1)


@operator(
    "optimizer_lamb_phase1(Tensor[] gradients, Tensor[] weights, Tensor(a!)[] exp_avg, Tensor(b!)[] exp_avg_sq, "
    "Tensor(c!)[] out_weight_norms, Tensor(d!)[] out_adam_norms, Tensor(e!)[] out_adam_steps, "
    "Tensor clip_global_grad_norm, int grad_averaging, float beta1, float beta2, float epsilon, "
    "Tensor bias_correction1, Tensor bias_correction2, float weight_decay) -> ()",
    of="mul, add, sqrt, div, vector_norm, copy_",
)
def optimizer_lamb_phase1(
    gradients: list[Tensor], weights: list[Tensor], exp_avg: list[Tensor], exp_avg_sq: list[Tensor],
    out_weight_norms: list[Tensor], out_adam_norms: list[Tensor], out_adam_steps: list[Tensor],
    clip_global_grad_norm: Tensor, grad_averaging: int, beta1: float, beta2: float, epsilon: float,
    bias_correction1: Tensor, bias_correction2: Tensor, weight_decay: float,
) -> None:  # fmt: skip
    """LAMB's moments, Adam steps (with weight decay added) and norms of weights and steps. Source: Y. You et al., 2020.

    Gradients are divided by `clip_global_grad_norm`. All lists are of one length; norms have one number.
    """
    check_same_length(
        "optimizer_lamb_phase1", "gradients", gradients=gradients, weights=weights, exp_avg=exp_avg,
        exp_avg_sq=exp_avg_sq, out_weight_norms=out_weight_norms, out_adam_norms=out_adam_norms,
        out_adam_steps=out_adam_steps,
    )  # fmt: skip
    share = 1 - beta1 if grad_averaging else 1.0
    with torch.no_grad():
        first_correction, second_correction = bias_correction1.reshape(()), bias_correction2.reshape(())
        for i, weight in enumerate(weights):
            grad = gradients[i] / clip_global_grad_norm.reshape(())
            exp_avg[i].mul_(beta1).add_(grad, alpha=share)
            exp_avg_sq[i].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            step = (exp_avg[i] / first_correction) / ((exp_avg_sq[i] / second_correction).sqrt() + epsilon)
            if weight_decay:
                step = step + weight_decay * weight
            out_adam_steps[i].copy_(step)
            out_adam_norms[i].copy_(torch.linalg.vector_norm(step).reshape(out_adam_norms[i].shape))
            out_weight_norms[i].copy_(torch.linalg.vector_norm(weight).reshape(out_weight_norms[i].shape))


@operator(
    "optimizer_lamb_phase2(Tensor(a!)[] weights, Tensor[] adam_norms, Tensor[] weight_norms, Tensor[] adam_steps, "
    "Tensor neg_step, float wd, bool use_lamb) -> ()",
    of="where, div, mul, add_",
)
def optimizer_lamb_phase2(
    weights: list[Tensor], adam_norms: list[Tensor], weight_norms: list[Tensor], adam_steps: list[Tensor],
    neg_step: Tensor, wd: float, use_lamb: bool,
) -> None:  # fmt: skip
    """weight += neg_step * trust * step; trust: weight norm / step norm where both are positive, else 1.

    Without weight decay trust is 1 unless `use_lamb`, as in NVIDIA's LAMB.
    """
    check_same_length(
        "optimizer_lamb_phase2", "weights", weights=weights, adam_norms=adam_norms, weight_norms=weight_norms,
        adam_steps=adam_steps,
    )  # fmt: skip
    with torch.no_grad():
        step = neg_step.reshape(())
        for i, weight in enumerate(weights):
            if wd != 0.0 or use_lamb:
                adam, norm = adam_norms[i].reshape(()), weight_norms[i].reshape(())
                trust = torch.where((adam > 0) & (norm > 0), norm / adam, 1.0)
                weight.add_(adam_steps[i] * (trust * step))
            else:
                weight.add_(adam_steps[i] * step)
