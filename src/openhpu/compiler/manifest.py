"""What a compiled recipe expects, returns and contains: `manifest.json` beside its library."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import torch

from openhpu.compiler.geometry import Geometry
from openhpu.compiler.sizes import Guard, Size

FORMAT = 3

LIBRARY, PROGRAM, MANIFEST = "recipe.so", "program.py", "manifest.json"


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
    def of(cls, slot: int, geometry: Geometry) -> SlotTensor:
        dtype, sizes, strides, offset = geometry
        return cls(slot, dtype, tuple(map(_plain, sizes)), tuple(map(_plain, strides)), _plain(offset))


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
    symbols that satisfy `guards`, each of which says that its first formula is less than its second. `files`:
    names and sha256 of all files of the recipe; recipe.so is the library. `nodes` counts operators of the description,
    `kernels` generated functions, `external_kernels` calls of PyTorch's kernels by name.
    """

    key: str
    inputs: tuple[SlotTensor, ...]
    scalar_inputs: tuple[ScalarInput, ...]
    variable: tuple[int, ...]
    outputs: tuple[SlotTensor, ...]
    mutated: tuple[int, ...]
    guards: tuple[Guard, ...]
    nodes: int
    kernels: int
    external_kernels: Mapping[str, int]
    compile_seconds: float
    torch: str
    isa: str
    threads: int
    files: Mapping[str, str]

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, default=_dtype_name, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Raises ValueError if the text is not a manifest of this format."""
        try:
            data = json.loads(text)
            if data.pop("format") != FORMAT:
                raise ValueError("manifest of another format")
            for name in ("inputs", "outputs"):
                data[name] = tuple(_slot_tensor(entry) for entry in data[name])
            data["scalar_inputs"] = tuple(
                ScalarInput(int(entry["index"]), _dtype(entry["dtype"])) for entry in data["scalar_inputs"]
            )
            for name in ("variable", "mutated"):
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
