"""The out= forms of an operator: right size, empty, wrong size, strided, wrong dtype."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch

from tests.conformance.execute import Arguments, Program

Make = Callable[[torch.Tensor, str], torch.Tensor]


def _filled(size: Any, dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.ones(size, dtype=dtype, device=device)


def _wrong_size(like: torch.Tensor) -> tuple[int, ...]:
    return (*like.shape[:-1], like.shape[-1] + 1) if like.dim() else (2,)


def _wrong_dtype(like: torch.Tensor) -> torch.dtype:
    return torch.long if like.dtype.is_floating_point or like.dtype.is_complex else torch.float32


_FORMS: dict[str, Make] = {
    "out": lambda like, device: _filled(like.shape, like.dtype, device),
    "out empty": lambda like, device: torch.empty(0, dtype=like.dtype, device=device),
    "out of a wrong size": lambda like, device: _filled(_wrong_size(like), like.dtype, device),
    # The right size over every second element of a storage, so that a write to the gaps shows.
    "out strided": lambda like, device: _filled((*like.shape, 2), like.dtype, device)[..., 0],
    "out of a wrong dtype": lambda like, device: _filled(like.shape, _wrong_dtype(like), device),
    "out of bool": lambda like, device: _filled(like.shape, torch.bool, device),
}
_KEEP_THEIR_MEMORY = ("out", "out strided")


def _program(op: Any, expected: Any, form: str) -> Program:
    def program(arguments: Arguments, device: str) -> Any:
        single = isinstance(expected, torch.Tensor)
        outs = [_FORMS[form](t, device) for t in ([expected] if single else expected)]
        before = [t.data_ptr() for t in outs]
        bases = [t._base for t in outs if t._base is not None]
        argument: Any = outs if isinstance(expected, list) else tuple(outs)
        if single:
            argument = outs[0]
        # A factory checks the device that it would use by itself against that of `out`.
        with torch.device(device) if op.is_factory_function and "device" not in arguments[2] else nullcontext():
            value = op(arguments[0], *arguments[1], **arguments[2], out=argument)
        results = [value] if isinstance(value, torch.Tensor) else list(value)
        # Which of the outputs are the given tensors, and which of them kept their memory.
        same = [r is o for r, o in zip(results, outs, strict=False)]
        kept = [o.data_ptr() == p for o, p in zip(outs, before, strict=True) if o.numel()]
        return outs, bases, same, kept if form in _KEEP_THEIR_MEMORY else []

    return program


def out_programs(op: Any, expected: Any) -> Iterator[tuple[str, Program]]:
    """The forms that apply to the results that the CPU gave for a sample."""
    values = [expected] if isinstance(expected, torch.Tensor) else expected
    if not isinstance(values, (tuple, list)) or not values:
        return
    if not all(isinstance(t, torch.Tensor) and t.layout is torch.strided for t in values):
        return
    for form in _FORMS:
        yield form, _program(op, expected, form)
