"""A library of kernels, called from Python without an operator: for tests of kernels and for measurements."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import torch

_DIMENSIONS = 5
_MESSAGE_BYTES = 2048
_TYPES = {
    torch.float32: 0,
    torch.bfloat16: 1,
    torch.float16: 2,
    torch.float8_e4m3fn: 3,
    torch.float8_e5m2: 4,
    torch.int32: 5,
    torch.uint32: 6,
    torch.int16: 7,
    torch.uint16: 8,
    torch.int8: 9,
    torch.uint8: 10,
}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * _DIMENSIONS),
        ("strides", ctypes.c_int64 * _DIMENSIONS),
    )


class KernelError(RuntimeError):
    """The library refuses a node, or a kernel was ended."""


def _described(tensor: torch.Tensor) -> _Tensor:
    """The description of a tensor whose last dimension is the fastest."""
    if tensor.dtype not in _TYPES:
        raise KernelError(f"a kernel has no type for {tensor.dtype}; it takes {', '.join(map(str, _TYPES))}")
    sizes, strides = list(reversed(tensor.shape)), list(reversed(tensor.stride()))
    if not sizes:
        sizes, strides = [1], [1]
    if len(sizes) > _DIMENSIONS:
        raise KernelError(f"a tensor has {len(sizes)} dimensions; a kernel's has 1 to 5. Reshape it before the call")
    padded = [0] * (_DIMENSIONS - len(sizes))
    pair = ctypes.c_int64 * _DIMENSIONS
    return _Tensor(_TYPES[tensor.dtype], len(sizes), pair(*sizes, *padded), pair(*strides, *padded))


class Library:
    """A library that `openhpu tpc build` made. Raises KernelError if this machine can't run it."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path.resolve()))
        for name in ("openhpu_tpc_refused", "openhpu_tpc_kernel"):
            getattr(self._library, name).restype = ctypes.c_char_p
        for name in ("openhpu_tpc_resolve", "openhpu_tpc_guids"):
            getattr(self._library, name).restype = ctypes.c_void_p
        refused = self._library.openhpu_tpc_refused()
        if refused:
            raise KernelError(f"{path}: {refused.decode()}")

    def guids(self, generation: int = 2) -> list[str]:
        """The guids of the library's glue."""
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        address = self._library.openhpu_tpc_guids(generation, message, ctypes.c_size_t(_MESSAGE_BYTES))
        if not address:
            raise KernelError(message.value.decode())
        found: list[str] = []
        names = ctypes.cast(address, ctypes.POINTER(ctypes.c_char_p))
        while names[len(found)]:
            found.append(names[len(found)].decode())
        return found

    def run(
        self,
        guid: str,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        parameters: bytes = b"",
        *,
        pieces: int = 1,
        seconds: float = 60,
        generation: int = 2,
    ) -> None:
        """Run a node on CPU tensors; it writes `outputs`. `pieces`: into how many parts the index space is cut."""
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        node = self._library.openhpu_tpc_resolve(
            guid.encode(),
            generation,
            *self._tensors(inputs),
            *self._tensors(outputs),
            parameters,
            ctypes.c_size_t(len(parameters)),
            message,
            ctypes.c_size_t(_MESSAGE_BYTES),
        )
        if not node:
            raise KernelError(message.value.decode())
        try:
            pointers = [
                (ctypes.c_void_p * len(group))(*(each.data_ptr() for each in group)) for group in (inputs, outputs)
            ]
            failed = self._library.openhpu_tpc_run(
                ctypes.c_void_p(node),
                *pointers,
                None,
                pieces,
                ctypes.c_double(seconds),
                message,
                ctypes.c_size_t(_MESSAGE_BYTES),
            )
        finally:
            self._library.openhpu_tpc_release(ctypes.c_void_p(node))
        if failed:
            raise KernelError(message.value.decode())

    @staticmethod
    def _tensors(tensors: Sequence[torch.Tensor]) -> tuple[ctypes.Array[_Tensor], int]:
        return (_Tensor * max(len(tensors), 1))(*map(_described, tensors)), len(tensors)
