"""`openhpu tpc check`: a kernel of a library on random tensors, with checks and an account."""

import re
import struct
from collections.abc import Sequence
from pathlib import Path

import torch

from openhpu_tpc import account
from openhpu_tpc.declared import GENERATIONS
from openhpu_tpc.errors import BuildError
from openhpu_tpc.loading import KernelError, Library

_TENSOR = re.compile(r"^(?P<type>\w+)\[(?P<sizes>\d+(?:,\d+)*)\]$")
_TYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f8": torch.float8_e4m3fn,
    "h8": torch.float8_e5m2,
    "i32": torch.int32,
    "u32": torch.uint32,
    "i16": torch.int16,
    "u16": torch.uint16,
    "i8": torch.int8,
    "u8": torch.uint8,
}


def tensor_of(text: str) -> torch.Tensor:
    """A tensor of random values from `f32[5,100]`, whose last size is the fastest. Raises BuildError."""
    found = _TENSOR.match(text.replace(" ", ""))
    if not found or found["type"] not in _TYPES:
        raise BuildError(f"{text!r} is no tensor; give a type of {', '.join(_TYPES)} and sizes, such as f32[5,100]")
    sizes = [int(each) for each in found["sizes"].split(",")]
    dtype = _TYPES[found["type"]]
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(dtype)
    return torch.randint(0, 8, sizes, generator=generator).to(dtype)


def outputs_of(given: Sequence[str], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Outputs as `tensor_of` makes them; `in0` is the first input. Raises BuildError."""
    found = []
    for text in given:
        named = re.fullmatch(r"in(\d+)", text)
        if named and int(named[1]) >= len(inputs):
            raise BuildError(f"{text!r} is no input: there are {len(inputs)}, counted from in0")
        found.append(inputs[int(named[1])] if named else tensor_of(text))
    return found


def parameters_of(given: Sequence[str]) -> bytes:
    """The node's parameters from numbers: `1.0` is a float, `3` an integer of 32 bits. Raises BuildError."""
    packed = b""
    for text in given:
        try:
            whole = re.fullmatch(r"[-+]?\d+", text)
            packed += struct.pack("<i", int(text)) if whole else struct.pack("<f", float(text))
        except (ValueError, struct.error):
            raise BuildError(f"{text!r} is no parameter; give integers of 32 bits, and floats with a point") from None
    return packed


def check(
    path: Path,
    guid: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    numbers: Sequence[str],
    generation: str,
    complete: bool,
) -> int:
    """Check a kernel, and print findings and account. Returns 1 if there are errors."""
    read = [tensor_of(each) for each in inputs]
    written = outputs_of(outputs, read)
    try:
        library = Library(path)
        parameters = parameters_of(numbers)
        which = GENERATIONS[generation]
        report = library.check(guid, read, written, parameters, generation=which, complete=complete)
    except (KernelError, OSError) as error:
        raise BuildError(str(error)) from None
    for kind, findings in (("error", report.errors), ("note", report.notes)):
        for finding in findings:
            print(f"{kind}: {finding}")
    print(account.text(report.account))
    return 1 if report.errors else 0
