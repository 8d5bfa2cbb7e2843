"""A library of kernels, called from Python without an operator: for tests of kernels and for measurements."""

import contextlib
import ctypes
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

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


class Account(NamedTuple):
    """What a kernel has done in all of its members.

    `vector` and `special` are operations and special functions of vectors, `loads` and `stores` those of tensors by
    register, `scalars` accesses by addresses, `local` accesses of local memory.
    """

    members: int
    vector: int
    special: int
    loads: int
    stores: int
    load_bytes: int
    store_bytes: int
    scalars: int
    local: int
    local_bytes: int


class Report(NamedTuple):
    """What checks have found, a finding each, and the account."""

    errors: list[str]
    notes: list[str]
    account: Account


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * _DIMENSIONS),
        ("strides", ctypes.c_int64 * _DIMENSIONS),
    )


class _Account(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in Account._fields)


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
        with self._node(guid, inputs, outputs, parameters, generation) as (node, pointers, message):
            failed = self._library.openhpu_tpc_run(
                node, *pointers, None, pieces, ctypes.c_double(seconds), message, ctypes.c_size_t(_MESSAGE_BYTES)
            )
            if failed:
                raise KernelError(message.value.decode())

    def check(
        self,
        guid: str,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        parameters: bytes = b"",
        *,
        seconds: float = 60,
        generation: int = 2,
        complete: bool = False,
        in_place: Collection[int] = (),
    ) -> Report:
        """Run a node member by member with checks. It writes `outputs`.

        `complete`: an element of an output that no member writes is an error. `in_place`: the outputs whose contents
        the kernel may read, by their numbers; an output that shares memory with an input needs no mention. Raises
        KernelError if the node is refused, if the kernel was ended, or if the library has no checks.
        """
        readable = bytes(i in in_place for i in range(len(outputs)))
        with self._node(guid, inputs, outputs, parameters, generation) as (node, pointers, message):
            errors, notes, account = ctypes.c_char_p(), ctypes.c_char_p(), _Account()
            failed = self._library.openhpu_tpc_check(
                node,
                *pointers,
                readable,
                ctypes.c_double(seconds),
                ctypes.byref(errors),
                ctypes.byref(notes),
                ctypes.byref(account),
                message,
                ctypes.c_size_t(_MESSAGE_BYTES),
            )
            if failed:
                raise KernelError(message.value.decode())
            wrong, noted = ((each.value or b"").decode().splitlines() for each in (errors, notes))
            if complete:
                wrong += [note for note in noted if note.startswith("not written")]
            return Report(wrong, noted, Account(*(getattr(account, name) for name in Account._fields)))

    @contextlib.contextmanager
    def _node(
        self,
        guid: str,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        parameters: bytes,
        generation: int,
    ) -> Iterator[tuple[ctypes.c_void_p, list[ctypes.Array[ctypes.c_void_p]], ctypes.Array[ctypes.c_char]]]:
        """A node of the library, the addresses of its inputs and outputs, and a buffer for messages."""
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
            addresses = [[each.data_ptr() for each in group] for group in (inputs, outputs)]
            pointers = [(ctypes.c_void_p * len(group))(*group) for group in addresses]
            yield ctypes.c_void_p(node), pointers, message
        finally:
            self._library.openhpu_tpc_release(ctypes.c_void_p(node))

    @staticmethod
    def _tensors(tensors: Sequence[torch.Tensor]) -> tuple[ctypes.Array[_Tensor], int]:
        return (_Tensor * max(len(tensors), 1))(*map(_described, tensors)), len(tensors)
