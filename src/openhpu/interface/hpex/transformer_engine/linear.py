"""A linear layer whose products are of fp8 operands."""

from typing import Any

import torch
from torch import Tensor

from openhpu.interface.hpex.attention import lowered
from openhpu.interface.hpex.transformer_engine.state import FP8GlobalStateManager, TensorScale, is_recomputing


def rounded(x: Tensor, tensor_scale: TensorScale, dtype: torch.dtype, recording: bool) -> tuple[Tensor, Tensor]:
    """`x` in fp8, and the factor that gives its values back."""
    scale = tensor_scale.next(x, dtype) if recording else tensor_scale.scale.to(x.device)
    return torch.ops.hpu.cast_to_fp8_v2(x, scale, False, False, dtype)[0], 1.0 / scale


class _Product(torch.autograd.Function):
    """x @ weight^T, and its gradients, by products of fp8."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, scales: Any, recording: bool) -> Tensor:
        forward_dtype, ctx.backward_dtype = FP8GlobalStateManager.get_fp8_recipe().fp8_format.value
        flat = x.reshape(-1, x.shape[-1])
        x8, x_inverse = rounded(flat, scales["input"], forward_dtype, recording)
        w8, w_inverse = rounded(weight.to(x.device), scales["weight"], forward_dtype, recording)
        ctx.save_for_backward(x8, x_inverse, w8, w_inverse)
        ctx.scales, ctx.dtypes, ctx.shape = scales, (x.dtype, weight.dtype), x.shape
        ctx.bias = None if bias is None else {"dtype": bias.dtype, "device": bias.device}
        ctx.weight_device = weight.device  # lazy mode moves operands on the CPU, and so does this
        # The backward runs outside of the autocast that the forward was in.
        ctx.stack = FP8GlobalStateManager._stack[-1:]
        bias = None if bias is None else bias.to(x.device)
        out = torch.ops.hpu.fp8_gemm_v2(x8, False, w8, True, None, x.dtype, x_inverse, w_inverse, bias)
        return out.reshape(*x.shape[:-1], weight.shape[0])  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        grad = grads[0].reshape(-1, grads[0].shape[-1])
        x8, x_inverse, w8, w_inverse = ctx.saved_tensors
        FP8GlobalStateManager._stack.extend(ctx.stack)
        try:
            g8, g_inverse = rounded(grad, ctx.scales["grad"], ctx.backward_dtype, True)
        finally:
            del FP8GlobalStateManager._stack[len(FP8GlobalStateManager._stack) - len(ctx.stack) :]
        gemm = torch.ops.hpu.fp8_gemm_v2
        grad_x = grad_w = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = gemm(g8, False, w8, False, None, ctx.dtypes[0], g_inverse, w_inverse).reshape(ctx.shape)
        if ctx.needs_input_grad[1]:
            grad_w = gemm(g8, True, x8, False, None, ctx.dtypes[1], g_inverse, x_inverse).to(ctx.weight_device)
        if ctx.bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad.float().sum(0).to(**ctx.bias)
        return grad_x, grad_w, grad_bias, None, None


class Linear(torch.nn.Module):
    """torch.nn.Linear that computes in fp8 under fp8_autocast. weight: [out_features, in_features].

    Under fp8 the input, the weight and the gradient of the result are rounded to fp8, each with a scale by the recipe;
    the bias is added in float32. Otherwise it is torch.nn.Linear.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        params_dtype: torch.dtype | None = None,
        device: Any = None,
        skip_weight_param_allocation: bool = False,
        minimize_memory: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if skip_weight_param_allocation:
            raise NotImplementedError("Linear: skip_weight_param_allocation is True; expected False")
        if kwargs:
            raise TypeError(f"Linear: unexpected arguments {', '.join(kwargs)}")
        self.in_features, self.out_features = in_features, out_features
        options = {"dtype": params_dtype, "device": device}
        self.weight = torch.nn.Parameter(torch.empty(out_features, in_features, **options))
        self.bias = torch.nn.Parameter(torch.empty(out_features, **options)) if bias else None
        self.fp8_scales = torch.nn.ModuleDict({name: TensorScale() for name in ("input", "weight", "grad")})
        self.reset_parameters()

    reset_parameters: Any = torch.nn.Linear.reset_parameters
    extra_repr: Any = torch.nn.Linear.extra_repr

    def forward(self, input: Tensor, is_first_microbatch: bool | None = None) -> Tensor:
        """input @ weight^T + bias. input: [..., in_features]."""
        x, weight, bias = lowered(input, self.weight, self.bias)
        recording = not is_recomputing()
        if FP8GlobalStateManager.is_fp8_enabled():
            return _Product.apply(x, weight, bias, self.fp8_scales, recording)  # type: ignore[no-any-return,no-untyped-call]
        if FP8GlobalStateManager.is_fp8_calibration() and recording:
            forward_dtype = FP8GlobalStateManager.get_fp8_recipe().fp8_format.value[0]
            self.fp8_scales["input"].next(x, forward_dtype)  # type: ignore[operator]
            self.fp8_scales["weight"].next(weight, forward_dtype)  # type: ignore[operator]
        return torch.nn.functional.linear(x, weight, bias)
