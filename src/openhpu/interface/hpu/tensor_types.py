"""The legacy tensor types, such as torch.hpu.FloatTensor: constructors, and classes for isinstance."""

from typing import Any

import torch

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class _TensorType(type):
    dtype: torch.dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Tensor) and instance.device.type == "hpu" and instance.dtype is cls.dtype


class _Legacy(metaclass=_TensorType):
    """`T(2, 3)` or `T(torch.Size)`: an uninitialised tensor of that shape; `T(data)`: a tensor with that data.

    `device` and `dtype` may be given if they say the same as the type; RuntimeError otherwise, also for a tensor
    as data that has another dtype.
    """

    dtype = torch.float32

    def __new__(cls, *args: Any, device: Any = None, dtype: torch.dtype | None = None) -> torch.Tensor:  # type: ignore[misc]
        if device is not None and torch.device(device).type != "hpu":
            raise RuntimeError(f"torch.hpu.{cls.__name__} makes tensors on hpu, but device is {device}")
        if dtype is not None and dtype is not cls.dtype:
            raise RuntimeError(f"torch.hpu.{cls.__name__} makes tensors of {cls.dtype}, but dtype is {dtype}")
        where = torch.device("hpu" if device is None else device)
        if len(args) != 1 or isinstance(args[0], (int, torch.Size)):
            shape = args[0] if len(args) == 1 and isinstance(args[0], torch.Size) else args or (0,)
            return torch.empty(shape, dtype=cls.dtype, device=where)
        data = args[0]
        if isinstance(data, torch.Tensor):
            if data.dtype is not cls.dtype:
                raise RuntimeError(f"torch.hpu.{cls.__name__} takes tensors of {cls.dtype}, but got {data.dtype}")
            return data.to(where)
        return torch.tensor(data, dtype=cls.dtype, device=where)


def _type(name: str, dtype: torch.dtype) -> Any:
    return _TensorType(name, (_Legacy,), {"__doc__": _Legacy.__doc__, "__module__": __name__, "dtype": dtype})


BFloat16Tensor = _type("BFloat16Tensor", torch.bfloat16)
BoolTensor = _type("BoolTensor", torch.bool)
ByteTensor = _type("ByteTensor", torch.uint8)
CharTensor = _type("CharTensor", torch.int8)
DoubleTensor = _type("DoubleTensor", torch.float64)
FloatTensor = _type("FloatTensor", torch.float32)
HalfTensor = _type("HalfTensor", torch.float16)
IntTensor = _type("IntTensor", torch.int32)
LongTensor = _type("LongTensor", torch.int64)
ShortTensor = _type("ShortTensor", torch.int16)
