"""The out= forms of an operator: right size, empty, wrong size, strided, wrong dtype."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch

from tests.conformance.execute import Arguments, Program

Make = Callable[[torch.Tensor, str], torch.Tensor]


def _filled(size: Any, dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.ones(size, dtype=dtype, device=device)


def _exact(like: torch.Tensor, device: str) -> torch.Tensor:
    return _filled(like.shape, like.dtype, device)


def _empty(like: torch.Tensor, device: str) -> torch.Tensor:
    return torch.empty(0, dtype=like.dtype, device=device)


def _wrong_size(like: torch.Tensor, device: str) -> torch.Tensor:
    return _filled((*like.shape[:-1], like.shape[-1] + 1) if like.dim() else (2,), like.dtype, device)


def _strided(like: torch.Tensor, device: str) -> torch.Tensor:
    """The right size over every second element of a storage, so that a write to the gaps shows."""
    wide = _filled((*like.shape, 2), like.dtype, device)
    return wide[..., 0]


def _wrong_dtype(like: torch.Tensor, device: str) -> torch.Tensor:
    wrong = torch.long if like.dtype.is_floating_point or like.dtype.is_complex else torch.float32
    return _filled(like.shape, wrong, device)


def _bool_dtype(like: torch.Tensor, device: str) -> torch.Tensor:
    return _filled(like.shape, torch.bool, device)


_FORMS: tuple[tuple[str, Make], ...] = (
    ("out", _exact), ("out empty", _empty), ("out of a wrong size", _wrong_size), ("out strided", _strided),
    ("out of a wrong dtype", _wrong_dtype), ("out of bool", _bool_dtype),
)  # fmt: skip


def _program(op: Any, expected: Any, make: Make) -> Program:
    def program(arguments: Arguments, device: str) -> Any:
        single = isinstance(expected, torch.Tensor)
        outs = [make(t, device) for t in ([expected] if single else expected)]
        before = [t.data_ptr() for t in outs]
        bases = [t._base for t in outs if t._base is not None]
        argument = outs[0] if single else (outs if isinstance(expected, list) else tuple(outs))
        # A factory checks the device that it would use by itself against that of `out`.
        with torch.device(device) if op.is_factory_function and "device" not in arguments[2] else nullcontext():
            value = op(arguments[0], *arguments[1], **arguments[2], out=argument)
        results = [value] if isinstance(value, torch.Tensor) else list(value)
        # Which of the outputs are the given tensors, and which of them kept their memory.
        same = [r is o for r, o in zip(results, outs, strict=False)]
        kept = [o.data_ptr() == p for o, p in zip(outs, before, strict=True) if o.numel() and make is not _empty]
        return outs, bases, same, kept if make in (_exact, _strided) else []

    return program


def out_programs(op: Any, expected: Any) -> Iterator[tuple[str, Program]]:
    """The forms that apply to the results that the CPU gave for a sample."""
    values = [expected] if isinstance(expected, torch.Tensor) else expected
    if not isinstance(values, (tuple, list)) or not values:
        return
    if not all(isinstance(t, torch.Tensor) and t.layout is torch.strided for t in values):
        return
    for name, make in _FORMS:
        yield name, _program(op, expected, make)
