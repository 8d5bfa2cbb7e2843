"""A call of an operator as JSON, and a JSON call that is run: what a recording and its replay have in common.

A tensor is `{"tensor": {"dtype", "shape", "stride", "made": {"rule", "seed", "bound"}}}`, or has `"kept": {"chunk",
"name"}` instead of `made`. Other objects are `{"dtype": "float32"}`, `{"device": true}`, `{"layout": "strided"}`,
`{"memory_format": "contiguous_format"}`, `{"complex": [re, im]}`, `{"float": "nan"}` and `{"generator": true}`.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

from openhpu_record.errors import RecordError
from openhpu_record.made import RULES, made
from openhpu_record.tensors import dtype_name

# What stands in for a tensor whose values are not kept.
Tensors = Callable[[torch.Tensor], dict[str, Any]]
MOST_BYTES = 4 << 30  # of an input that a replay makes
_SIGNS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class UnknownOperatorError(RecordError):
    """This PyTorch has no such operator."""


class TooLargeError(RecordError):
    """An input has more bytes than a replay makes."""


def encoded(value: Any, tensor: Tensors, home: str) -> Any:
    """An argument as JSON. `tensor` writes a tensor. `home`: the type of the device that is recorded.

    Raises RecordError for a kind of object that no operator takes.
    """
    if isinstance(value, torch.Tensor):
        return {"tensor": tensor(value)}
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return number(float(value))
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, (list, tuple)):
        return [encoded(one, tensor, home) for one in value]
    if isinstance(value, torch.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, torch.device):
        return {"device": True if value.type == home else value.type}
    if isinstance(value, torch.layout):
        return {"layout": dtype_name(value)}  # type: ignore[arg-type]
    if isinstance(value, torch.memory_format):
        return {"memory_format": dtype_name(value)}  # type: ignore[arg-type]
    if isinstance(value, torch.Generator):
        return {"generator": True}
    raise RecordError(f"an argument is a {type(value).__name__}, which a recording cannot hold")


def decoded(value: Any, device: str, tensor: Callable[[dict[str, Any]], torch.Tensor]) -> Any:
    """An argument from JSON. `tensor` makes a tensor from what the recording says of it."""
    if isinstance(value, list):
        return [decoded(one, device, tensor) for one in value]
    if not isinstance(value, dict):
        return value
    kind, given = next(iter(value.items()))
    if kind == "tensor":
        return tensor(given)
    if kind == "device":
        return torch.device(given if isinstance(given, str) else device)
    if kind == "float":
        return _SIGNS[given]
    if kind == "complex":
        return complex(*given)
    if kind == "generator":
        return None
    if kind in ("dtype", "layout", "memory_format"):
        return getattr(torch, given)
    raise RecordError(f"an argument is of the kind {kind!r}, which this version does not know")


def filled(given: dict[str, Any], device: str, kept: Callable[[dict[str, Any]], torch.Tensor]) -> torch.Tensor:
    """The tensor with the recorded values, or those of its rule. `kept` reads what the recording holds."""
    dtype = getattr(torch, given["dtype"], None)
    if not isinstance(dtype, torch.dtype):
        raise UnknownOperatorError(f"this PyTorch has no dtype {given['dtype']!r}")
    size = math.prod(given["shape"]) * dtype.itemsize
    if size > MOST_BYTES:
        raise TooLargeError(f"an input has {size:,} bytes; a replay makes at most {MOST_BYTES:,}")
    if "kept" in given:
        host = kept(given["kept"])
    else:
        rule = given["made"]
        if rule["rule"] not in RULES:
            raise RecordError(f"an input is made by the rule {rule['rule']!r}, which this version does not know")
        host = made(rule["rule"], rule["seed"], dtype, given["shape"], rule.get("bound", 1))
    stride = given.get("stride")
    if stride is not None and list(host.stride()) != stride and _fits(given["shape"], stride):
        laid_out = torch.empty_strided(given["shape"], stride, dtype=dtype)
        laid_out.copy_(host)
        host = laid_out
    return host if given.get("device") == "cpu" else host.to(device)  # a number on the host, beside the device's


def _fits(shape: list[int], stride: list[int]) -> bool:
    """Whether the strides are those of a dense tensor, whose elements have memory of their own."""
    expected = 1
    for step, size in sorted(zip(stride, shape)):
        if size != 1:
            if step != expected:
                return False
            expected *= size
    return True


def operator(name: str) -> Any:
    """The operator aten.add.Tensor. Raises UnknownOperatorError."""
    namespace, _, rest = name.partition(".")
    plain, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), plain), overload or "default")
    except (AttributeError, RuntimeError):
        raise UnknownOperatorError(f"this PyTorch has no operator {name!r}") from None


def ready(call: dict[str, Any], device: str, kept: Callable[[dict[str, Any]], torch.Tensor]) -> Callable[[], Any]:
    """The call with its inputs on the device, which runs each time. Raises RecordError."""
    function = operator(call["op"])
    args, kwargs = arguments(call, device, lambda given: filled(given, device, kept))

    def run() -> list[torch.Tensor]:
        return results(function, args, kwargs, function(*args, **kwargs))

    return run


def arguments(call: dict[str, Any], device: str, tensor: Callable[[dict[str, Any]], torch.Tensor]) -> tuple[Any, Any]:
    """Those of a call, by their places and by their names."""
    named = {name: decoded(value, device, tensor) for name, value in call.get("kwargs", {}).items()}
    return decoded(call["args"], device, tensor), named


def results(function: Any, args: Any, kwargs: Any, returned: Any) -> list[torch.Tensor]:
    """The tensors that a call returned, and those that it changed and did not return."""
    found = tensors(returned)
    for position, argument in enumerate(function._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        given = kwargs.get(argument.name, args[position] if position < len(args) else None)
        found += [one for one in tensors(given) if not any(one is other for other in found)]
    return found


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in an argument or a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for one in value for leaf in tensors(one)]
    return tensors(list(value.values())) if isinstance(value, dict) else []


def number(value: float) -> Any:
    """A number as JSON."""
    return value if math.isfinite(value) else {"float": str(value)}
