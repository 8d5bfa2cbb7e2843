"""Inference mode: the functions that Gaudi scripts call around a model that is only evaluated."""

import copy
import warnings
from collections.abc import Iterator
from typing import Any, TypeVar, overload

import torch
from torch.nn.utils.fusion import fuse_conv_bn_eval

from openhpu.capture.hpu_graphs import marked
from openhpu.interface import hpu
from openhpu.interface.names import deprecated

Model = TypeVar("Model", bound=torch.nn.Module)

_marked = 0  # so far; a number is not given twice


@overload
def hpu_set_inference_env(model: None = None) -> None: ...
@overload
def hpu_set_inference_env(model: Model) -> Model | torch.nn.Module: ...
def hpu_set_inference_env(model: torch.nn.Module | None = None) -> torch.nn.Module | None:
    """Turn inference mode on. With `model`, an evaluating model on the CPU, return it with its batch norms folded
    into the convolutions before them; a model that torch.fx cannot trace comes back as it is, with a warning.
    Raises RuntimeError for a float16 model on Gaudi 1."""
    _refuse_half(model, "hpu_set_inference_env")
    hpu.enable_inference_mode()
    return None if model is None else _fold(model)


def hpu_inference_initialize(
    model: torch.nn.Module | None = None,
    mark_only_scales_as_const: bool = False,
    optimizer: Any = None,
    args: Any = None,
) -> None:
    """Turn inference mode on, after `model.to("hpu")`, and mark the model's parameters as constants.

    With `mark_only_scales_as_const` those whose names contain "scale" only. Raises RuntimeError for a float16 model on
    Gaudi 1.
    """
    _refuse_half(model, "hpu_inference_initialize")
    hpu.enable_inference_mode()
    if model is not None:
        mark_params_as_const(model, scales_only=mark_only_scales_as_const)


def mark_params_as_const(model: torch.nn.Module, scales_only: bool = False) -> None:
    """Give each parameter and buffer of `model` a number as a constant, unless it has one.

    Recipes of HPU graphs that are captured from then on hold marked tensors as constants, up to 64 MiB a graph; without
    marks parameters only, and only those that require gradients where `wrap_in_hpu_graph` is not used. A write to a
    constant makes it an input again, so that its new value is used: marks change no result.
    """
    global _marked
    for name, tensor in _state(model):
        if tensor in marked.numbers or (scales_only and "scale" not in name):
            continue
        marked.numbers[tensor] = _marked
        _marked += 1


def check_params_as_const(model: torch.nn.Module) -> None:
    """Raise RuntimeError, with its name, for a parameter or buffer of `model` that is not marked as a constant."""
    for name, tensor in _state(model):
        if tensor not in marked.numbers:
            raise RuntimeError(
                f"_check_params_as_const: {name} of {type(model).__name__} is not marked as a constant; call "
                "_mark_params_as_const(model) after the model has its last parameters and device."
            )


def marked_const_count() -> int:
    """How many tensors have been marked as constants so far."""
    return _marked


def _state(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def hpu_teardown_inference_env() -> None:
    """Turn inference mode off."""
    hpu.disable_inference_mode()


# Other names of the same.
hpu_inference_set_env = hpu_set_inference_env
hpu_set_env = deprecated("htcore.hpu_set_env", "htcore.hpu_set_inference_env")(hpu_set_inference_env)
hpu_initialize = deprecated("htcore.hpu_initialize", "htcore.hpu_inference_initialize")(hpu_inference_initialize)
hpu_reset_env = deprecated("htcore.hpu_reset_env", "htcore.hpu_teardown_inference_env")(hpu_teardown_inference_env)


def _refuse_half(model: torch.nn.Module | None, function: str) -> None:
    """Gaudi 1 has no float16: its users are told before the first operator falls back to the CPU."""
    if model is None or hpu.is_fp16_supported():
        return
    for name, tensor in _state(model):
        if tensor.dtype is torch.float16:
            raise RuntimeError(
                f"{function}: inference in float16 is not supported on Gaudi 1, which OPENHPU_GENERATION names, and "
                f"{name} of the model is float16. Use model.to(torch.bfloat16), or set OPENHPU_GENERATION to gaudi2 or "
                "gaudi3."
            )


_CONVOLUTIONS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
_BATCH_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)


def _fold(model: torch.nn.Module) -> torch.nn.Module:
    if model.training:
        raise RuntimeError("batch norms can be folded into an evaluating model only: call model.eval() first")
    if not any(isinstance(module, _BATCH_NORMS) for module in model.modules()):
        return model
    import torch.fx

    try:
        traced = torch.fx.symbolic_trace(copy.deepcopy(model))
    except Exception as error:
        warnings.warn(
            f"batch norms are not folded, torch.fx cannot trace the model: {error}", UserWarning, stacklevel=3
        )
        return model
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        if node.op != "call_module" or not isinstance(modules[node.target], _BATCH_NORMS):
            continue
        source = node.args[0]
        if source.op != "call_module" or not isinstance(modules[source.target], _CONVOLUTIONS):
            continue
        calls = [other for other in traced.graph.nodes if other.op == "call_module" and other.target == source.target]
        if len(source.users) > 1 or len(calls) > 1 or modules[node.target].running_mean is None:
            continue  # somebody else needs the convolution as it is
        folded = fuse_conv_bn_eval(modules[source.target], modules[node.target])
        traced.set_submodule(source.target, folded)
        node.replace_all_uses_with(source)
        traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced
