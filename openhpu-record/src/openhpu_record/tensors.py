"""Tensors in files of the format safetensors, written and read with PyTorch alone."""

import ctypes
import json
from collections.abc import Mapping
from typing import Any

import torch

from openhpu_record.errors import RecordError

# Names of the format by PyTorch's. A dtype that is missing here is not kept.
NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
}
_DTYPES = {name: getattr(torch, dtype) for dtype, name in NAMES.items() if hasattr(torch, dtype)}
_MOST_HEADER = 100 << 20  # bytes, the format's own limit


def dtype_name(dtype: torch.dtype) -> str:
    """float32, as PyTorch names it."""
    return str(dtype).replace("torch.", "")


def raw(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor on the host, in the order of its elements."""
    whole = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return ctypes.string_at(whole.data_ptr(), whole.numel() * whole.element_size()) if whole.numel() else b""


def packed(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """A file of these tensors, which are on the host and have dtypes of NAMES."""
    header: dict[str, Any] = {}
    parts = []
    at = 0
    for name, tensor in tensors.items():
        data = raw(tensor)
        header[name] = {
            "dtype": NAMES[dtype_name(tensor.dtype)],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + len(data)],
        }
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def unpacked(data: bytes, file: str) -> dict[str, torch.Tensor]:
    """The tensors of a file. Raises RecordError for what is not one."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(len(data) - 8, _MOST_HEADER):
        raise RecordError(f"{file} is not a file of tensors, or it is truncated")
    found = {}
    try:
        for name, about in json.loads(data[8 : 8 + size]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + size + at for at in about["data_offsets"])
            if not 8 + size <= begin <= end <= len(data):
                raise RecordError(f"{file} is truncated: the tensor {name!r} lies beyond its end")
            dtype = _DTYPES[about["dtype"]]
            part = bytearray(data[begin:end])
            flat = torch.frombuffer(part, dtype=dtype) if part else torch.empty(0, dtype=dtype)
            found[name] = flat.reshape(about["shape"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, RecordError):
            raise
        raise RecordError(f"{file} is not a file of tensors: {error!r}") from None
    return found
