"""Errors of Gaudi's operators. They name operator, argument, the given value and the expected one."""

from collections.abc import Sequence

import torch

from openhpu.interface.gaudi_ops.arguments import Arguments


def check(condition: bool, operator: str, argument: str, given: object, expected: str) -> None:
    """Raise RuntimeError unless `condition` holds."""
    if not condition:
        operator = operator if "::" in operator else f"hpu::{operator}"
        raise RuntimeError(f"{operator}: {argument} is {describe(given)}; expected {expected}.")


def describe(value: object) -> str:
    """A tensor by dtype, shape and device, a list of tensors by its length, anything else as Python prints it."""
    if isinstance(value, torch.Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {list(value.shape)} on {value.device}"
    if isinstance(value, list | tuple) and any(isinstance(part, torch.Tensor) for part in value):
        return f"a list of {len(value)} tensors"
    return repr(value)


def c_name(dtype: torch.dtype) -> str:
    """An 8-bit float dtype as PyTorch's C++ prints it: `Float8_e4m3fn`."""
    return str(dtype).removeprefix("torch.").capitalize()


def check_dims(operator: str, argument: str, tensor: torch.Tensor, *allowed: int) -> None:
    """Raise RuntimeError unless the tensor's number of dimensions is one of `allowed`."""
    names = " or ".join(map(str, allowed))
    check(tensor.dim() in allowed, operator, argument, tensor, f"{names} dimensions")


def expect(a: Arguments, argument: str, condition: bool, expected: str) -> None:
    """`check` of the argument of that name of an operator."""
    check(condition, a.operator, argument, getattr(a, argument), expected)


def check_same_length(operator: str, **lists: Sequence[object]) -> None:
    """Raise RuntimeError unless the lists, by the names of the arguments, are as long as the first one."""
    (first, expected), *others = lists.items()
    for name, given in others:
        fits = len(given) == len(expected)
        check(fits, operator, name, given, f"{len(expected)} tensors, as many as {first}")
