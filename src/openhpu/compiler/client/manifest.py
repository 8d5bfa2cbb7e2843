"""The arguments, results and contents of a compiled recipe: `manifest.json` beside its library."""

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Self

import torch

from openhpu.compiler.program.description import Description
from openhpu.compiler.program.geometry import Geometry
from openhpu.compiler.program.regions import NODES, Call
from openhpu.compiler.program.sizes import Guard, Size
from openhpu.settings import folders

FORMAT = 7

LIBRARY = "recipe.so"
PROGRAM = "program.py"
MANIFEST = "manifest.json"


def library_of(region: int) -> str:
    """The library of a recipe's region, counted from 0."""
    return f"recipe-{region}.so" if region else LIBRARY


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
    slots, scalars, nodes = description["slots"], description["scalars"], description["nodes"]
    if manifest.threads != description["threads"]:
        yield f"it is for {manifest.threads} threads"
    if bool(manifest.calls) != bool(manifest.regions):
        yield "it has calls without regions, or regions without calls"
    calls = manifest.calls or (Call(0, tuple(range(len(slots))), tuple(range(len(scalars))), 0),)
    yield from _misfits_of_begins([call.node for call in calls])
    returned: set[int] = set()
    for call, end in zip(calls, [*(call.node for call in calls[1:]), len(nodes)], strict=True):
        yield from _misfits_of_call(manifest, call, description)
        if call.region == NODES:
            returned.update(out[1] for node in nodes[call.node : end] for out in node["outputs"] if out[0] == "fresh")
            continue
        region = manifest.regions[call.region] if manifest.regions else manifest
        if region.threads != manifest.threads or (region.calls and region is not manifest):
            yield "it has a region for another number of threads, or one with regions"
        yield from _misfits_of_tensors(region, call, description)
        yield from _misfits_of_numbers(region, call, end, description)
        returned.update(call.slots[spec.slot] for spec in region.outputs)
    yield from _misfits_of_results(manifest, returned, description)
    for guard in manifest.guards:
        if len(guard) != 2 or not all(_is_number(side, description.get("symbols", {})) for side in guard):
            yield f"{guard!r} is no guard"
    if not all(type(number) is int for number in manifest.external_kernels.values()):
        yield "its kernels have no numbers"


def _misfits_of_begins(begins: list[int]) -> Iterator[str]:
    if not all(type(node) is int for node in begins) or begins != sorted(set(begins)) or begins[0] != 0:
        yield "its calls begin with other nodes"


def _misfits_of_call(manifest: "Manifest", call: Call, description: Description) -> Iterator[str]:
    """Of what a call names: slots, numbers and a region."""
    slots, scalars = len(description["slots"]), len(description["scalars"])
    if not all(type(slot) is int and 0 <= slot < slots for slot in call.slots):
        yield "it has a call with a slot that there is not"
    if len(set(call.slots)) != len(call.slots):
        yield "it has a call with one slot twice"
    if not all(type(index) is int and 0 <= index < scalars for index in call.scalars):
        yield "it has a call with a number that there is not"
    if not (type(call.region) is int and NODES <= call.region < max(1, len(manifest.regions))):
        yield f"it has no region {call.region}"


def _misfits_of_results(manifest: "Manifest", returned: set[int], description: Description) -> Iterator[str]:
    """Of the slots that all calls together return."""
    live = set(description["live"])
    if not manifest.calls and not live.issuperset(returned):
        yield "it returns a result that was not requested"
    for node in description["nodes"]:
        for out in node["outputs"]:
            if out[0] == "fresh" and out[1] in live and 0 not in out[3] and out[1] not in returned:
                yield f"it does not return slot {out[1]}"


def _misfits_of_tensors(region: "Manifest", call: Call, description: Description) -> Iterator[str]:
    """Of the tensors that a region takes and returns, in the slots of a call."""
    slots, symbols = description["slots"], description.get("symbols", {})
    for spec in (*region.inputs, *region.outputs):
        if not (isinstance(spec, SlotTensor) and isinstance(spec.dtype, torch.dtype)):
            yield f"{spec!r} is no tensor"
        if not 0 <= spec.slot < len(call.slots):
            yield f"{spec!r} is no tensor of it"
        if len(spec.sizes) != len(spec.strides):
            yield f"{spec!r} has other strides than sizes"
        numbers = (*spec.sizes, *spec.strides, spec.offset)
        if not all(_is_number(number, symbols) for number in numbers):
            yield f"{spec!r} is of unknown size"
        nbytes = slots[call.slots[spec.slot]]["nbytes"]
        if all(type(number) is int for number in (*numbers, nbytes)):
            low, high = Geometry(spec.dtype, spec.sizes, spec.strides, spec.offset).span  # type: ignore[arg-type]
            if not 0 <= low <= high <= nbytes:
                yield f"{spec!r} lies outside of its {nbytes} bytes"
    results = [call.slots[spec.slot] for spec in region.outputs]
    if len(set(results)) != len(results) or any(slots[slot]["kind"] != "fresh" for slot in results):
        yield "it returns a result that was not requested"


def _misfits_of_numbers(region: "Manifest", call: Call, end: int, description: Description) -> Iterator[str]:
    """Of the numbers that a region takes, and of those that it counts for a call of the nodes before `end`."""
    for index in (*region.variable, *(spec.index for spec in region.scalar_inputs)):
        if not (0 <= index < len(call.scalars) and description["variable"][call.scalars[index]]):
            yield f"number {index} is none that may vary"
    if not all(isinstance(spec.dtype, torch.dtype) for spec in region.scalar_inputs):
        yield "a number has no dtype"
    counting = (*region.counted, *region.overflowing)
    if not all(type(node) is int and 0 <= node < end - call.node for node in counting):
        yield "it counts indices or overflows of a node that it does not have"


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
    A recipe of `regions` has no code of its own: it makes the `calls`, in order. A region's library is
    `library_of(region)`; its manifest is as that of a recipe of its own, but has no files.
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
    regions: "tuple[Manifest, ...]" = ()
    calls: tuple[Call, ...] = ()

    def libraries(self) -> list[str]:
        """The names of its libraries: one for each region, or its own."""
        return [library_of(region) for region in range(max(1, len(self.regions)))]

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, default=_dtype_name, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ValueError if the text is not a manifest of this format."""
        try:
            data = folders.parsed(text)
            if data.pop("format") != FORMAT:
                raise ValueError("manifest of another format")
            return cls._of(data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a manifest: {error!r}") from error

    @classmethod
    def _of(cls, data: dict[str, Any]) -> Self:
        for name in ("inputs", "outputs"):
            data[name] = tuple(_slot_tensor(entry) for entry in data[name])
        data["scalar_inputs"] = tuple(
            ScalarInput(int(entry["index"]), _dtype(entry["dtype"])) for entry in data["scalar_inputs"]
        )
        for name in ("variable", "mutated", "counted", "overflowing"):
            data[name] = tuple(data[name])
        data["guards"] = tuple(Guard(*guard) for guard in data["guards"])
        data["regions"] = tuple(cls._of(region) for region in data["regions"])
        data["calls"] = tuple(
            Call(region, tuple(slots), tuple(scalars), node) for region, slots, scalars, node in data["calls"]
        )
        return cls(**data)


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
