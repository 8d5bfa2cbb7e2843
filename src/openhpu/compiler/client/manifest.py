"""The arguments, results and contents of a compiled recipe: `manifest.json` beside its library."""

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Self

import torch

from openhpu.compiler.program.description import Description
from openhpu.compiler.program.geometry import Geometry
from openhpu.compiler.program.sizes import Guard, Size
from openhpu.settings import folders

FORMAT = 6

LIBRARY = "recipe.so"
PROGRAM = "program.py"
MANIFEST = "manifest.json"


@dataclasses.dataclass(frozen=True)
class SlotTensor:
    """A tensor that a recipe takes or returns: a slot and the place in its storage, in elements of `dtype`.

    Numbers that depend on the recipe's symbols are formulas ("64*n0").
    """

    slot: int
    dtype: torch.dtype
    sizes: tuple[int | str, ...]
    strides: tuple[int | str, ...]
    offset: int | str

    @classmethod
    def of(cls, slot: int, geometry: Geometry) -> Self:
        dtype, sizes, strides, offset = geometry
        return cls(slot, dtype, tuple(map(_plain, sizes)), tuple(map(_plain, strides)), _plain(offset))


def misfit(manifest: "Manifest", description: Description) -> str | None:
    """Why the recipe cannot be one of this graph; None if it may be. What the core would otherwise believe."""
    try:
        return next(_misfits(manifest, description), None)
    except (TypeError, ValueError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


def _misfits(manifest: "Manifest", description: Description) -> Iterator[str]:
    slots, scalars = description["slots"], description["scalars"]
    symbols = description.get("symbols", {})
    if manifest.threads != description["threads"]:
        yield f"it is for {manifest.threads} threads"
    for spec in (*manifest.inputs, *manifest.outputs):
        if not (isinstance(spec, SlotTensor) and isinstance(spec.dtype, torch.dtype) and 0 <= spec.slot < len(slots)):
            yield f"{spec!r} is no tensor of it"
        if len(spec.sizes) != len(spec.strides):
            yield f"{spec!r} has other strides than sizes"
        numbers = (*spec.sizes, *spec.strides, spec.offset)
        if not all(_is_number(number, symbols) for number in numbers):
            yield f"{spec!r} is of unknown size"
        nbytes = slots[spec.slot]["nbytes"]
        if all(type(number) is int for number in (*numbers, nbytes)):
            low, high = Geometry(spec.dtype, spec.sizes, spec.strides, spec.offset).span  # type: ignore[arg-type]
            if not 0 <= low <= high <= nbytes:
                yield f"{spec!r} lies outside of its {nbytes} bytes"
    for index in (*manifest.variable, *(spec.index for spec in manifest.scalar_inputs)):
        if not (0 <= index < len(scalars) and description["variable"][index]):
            yield f"number {index} is none that may vary"
    if not all(isinstance(spec.dtype, torch.dtype) for spec in manifest.scalar_inputs):
        yield "a number has no dtype"
    live = set(description["live"])
    returned = [spec.slot for spec in manifest.outputs]
    if len(set(returned)) != len(returned) or not live.issuperset(returned):
        yield "it returns a result that was not requested"
    for node in description["nodes"]:
        for out in node["outputs"]:
            if out[0] == "fresh" and out[1] in live and 0 not in out[3] and out[1] not in returned:
                yield f"it does not return slot {out[1]}"
    for guard in manifest.guards:
        if len(guard) != 2 or not all(_is_number(side, symbols) for side in guard):
            yield f"{guard!r} is no guard"
    nodes = len(description["nodes"])
    if not all(type(node) is int and 0 <= node < nodes for node in (*manifest.counted, *manifest.overflowing)):
        yield "it counts indices or overflows of a node that it does not have"
    if not all(type(number) is int for number in manifest.external_kernels.values()):
        yield "its kernels have no numbers"


def _is_number(number: object, symbols: Collection[str]) -> bool:
    if type(number) is int:
        return True
    return isinstance(number, str) and all(
        factor.isdigit() or factor in symbols for factor in re.split(r"[*+-]", number.removeprefix("-"))
    )


def _plain(number: int) -> int | str:
    return number.text if isinstance(number, Size) else number


@dataclasses.dataclass(frozen=True)
class ScalarInput:
    """A variable number: index into the description's scalars, and the dtype of the 0-dim CPU tensor that brings it."""

    index: int
    dtype: torch.dtype


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A recipe takes `inputs`, then `scalar_inputs`, and returns `outputs`, in order; it writes the slots `mutated`.

    `inputs` may share no memory. Outputs are new tensors with exactly these sizes and strides; their `offset` is where
    in the slot they belong. `variable`: the description's scalars that may have other values than when it was compiled
    (`scalar_inputs` are those of them that enter the computation); all others are constants of the recipe. It holds for
    symbols that satisfy `guards`, each of which says that its first formula is less than its second. After the outputs
    come 0-dim int64 tensors, one for each of the nodes `counted`: how many of its indices were out of range, and 2**32
    times how many of these were -1; then one for each of the nodes `overflowing`: how many results wrapped to 32 bits
    (OPENHPU_INT64). `files`: names and sha256 of all files of the recipe; recipe.so is the library.
    `nodes` counts operators of the description, `kernels` generated functions, `external_kernels` calls of PyTorch's
    kernels by name.
    """

    key: str
    inputs: tuple[SlotTensor, ...]
    scalar_inputs: tuple[ScalarInput, ...]
    variable: tuple[int, ...]
    outputs: tuple[SlotTensor, ...]
    mutated: tuple[int, ...]
    guards: tuple[Guard, ...]
    counted: tuple[int, ...]
    overflowing: tuple[int, ...]
    nodes: int
    kernels: int
    external_kernels: Mapping[str, int]
    torch: str
    isa: str
    threads: int
    files: Mapping[str, str]

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, default=_dtype_name, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ValueError if the text is not a manifest of this format."""
        try:
            data = folders.parsed(text)
            if data.pop("format") != FORMAT:
                raise ValueError("manifest of another format")
            for name in ("inputs", "outputs"):
                data[name] = tuple(_slot_tensor(entry) for entry in data[name])
            data["scalar_inputs"] = tuple(
                ScalarInput(int(entry["index"]), _dtype(entry["dtype"])) for entry in data["scalar_inputs"]
            )
            for name in ("variable", "mutated", "counted", "overflowing"):
                data[name] = tuple(data[name])
            data["guards"] = tuple(Guard(*guard) for guard in data["guards"])
            return cls(**data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a manifest: {error!r}") from error


def _dtype_name(value: Any) -> str:
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    raise TypeError(f"{value!r} in a manifest")


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name!r} is no dtype")
    return dtype


def _slot_tensor(entry: dict[str, Any]) -> SlotTensor:
    return SlotTensor(
        entry["slot"], _dtype(entry["dtype"]), tuple(entry["sizes"]), tuple(entry["strides"]), entry["offset"]
    )
