"""Finds changing shapes: in a model's modules, and in a data loader."""

import csv
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

_FIELDS = ("step", "module", "class", "inputs", "outputs", "new_in", "new_out")


class Dynamicity:
    """Follows a model's modules through hooks."""

    def __init__(self, model: torch.nn.Module, name: str, csv_out: str) -> None:
        self._csv_out = csv_out
        self._step = 0
        self._seen: dict[str, set[tuple[str, str]]] = {}
        self.calls: list[dict[str, Any]] = []  # with the values of _FIELDS
        for path, module in model.named_modules():
            called = functools.partial(self._called, f"{name}.{path}" if path else name)
            module.register_forward_hook(called, with_kwargs=True)
        model.register_forward_hook(self._end_of_step)

    def _called(self, path: str, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        inputs, outputs = shapes((args, kwargs)), shapes(result)
        seen = self._seen.setdefault(path, set())
        new_in = all(inputs != known for known, _ in seen)
        new_out = all(outputs != known for _, known in seen)
        seen.add((inputs, outputs))
        call = self._step, path, type(module).__name__, inputs, outputs, new_in, new_out
        self.calls.append(dict(zip(_FIELDS, call, strict=True)))

    def _end_of_step(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        self._step += 1

    def analyse(self) -> list[dict[str, Any]]:
        """Print, write to `<csv_out>.csv` and return the calls after the first step that met new shapes.

        Only the innermost modules: if a part of a module met new shapes, the module itself is not listed.
        """
        rows = []
        new = [call for call in self.calls if call["step"] and (call["new_in"] or call["new_out"])]
        for call in new:
            if any(c["step"] == call["step"] and c["module"].startswith(call["module"] + ".") for c in new):
                continue
            comment = (
                "new input shapes: pad the data, or drop the last batch"
                if call["new_in"]
                else "input shapes as before, new output shapes: sizes depend on values inside"
            )
            rows.append({**call, "comment": comment})
        self._write(rows, (*_FIELDS, "comment"), Path(f"{self._csv_out}.csv"))
        print(f"{len(rows)} calls of modules met new shapes after the first of {self._step} steps")
        for row in rows:
            print(
                f"step {row['step']}: {row['module']} ({row['class']}): {row['inputs']} -> {row['outputs']}: "
                f"{row['comment']}"
            )
        return rows

    def raw(self) -> list[dict[str, Any]]:
        """Every call of every module, also written to `<csv_out>_raw.csv`."""
        self._write(self.calls, _FIELDS, Path(f"{self._csv_out}_raw.csv"))
        return [*self.calls]

    @staticmethod
    def _write(rows: list[dict[str, Any]], fields: tuple[str, ...], path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fields)
            writer.writeheader()
            writer.writerows(rows)


def shapes(value: Any) -> str:
    """Dtypes and shapes of the tensors in nested lists, tuples and dictionaries, in order."""
    return ", ".join(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for _, t in _leaves(value, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")


def detect_recompilation_auto_model(
    model: torch.nn.Module, mdlname: str = "Net", waittime: float = 1, csv_out: str = "out"
) -> torch.nn.Module:
    """Follow the shapes in `model`, under the name `mdlname`; returns `model`, with two functions more.

    `model.analyse_dynamicity()` prints, returns and writes to `<csv_out>.csv` which modules met new shapes after the
    first step, each of them a compilation. `model.raw_logs()` gives every call. `waittime` is accepted: compilations
    need not be told apart by pauses here.
    """
    found: Any = model
    followed = Dynamicity(model, mdlname, csv_out)
    found.analyse_dynamicity = followed.analyse
    found.raw_logs = followed.raw
    return model


def data_dynamicity(dl: Any) -> dict[str, dict[str, int]]:
    """Go through a data loader once; print and return how many batches had which shape, for each tensor in a batch."""
    counted: dict[str, Counter[str]] = {}
    batches = 0
    for batch in dl:
        batches += 1
        for path, tensor in _leaves(batch, "batch"):
            counted.setdefault(path, Counter())[str(list(tensor.shape))] += 1
    print(f"{batches} batches")
    for path, found in counted.items():
        print(f"{path}: {len(found)} different shapes, the most frequent {found.most_common(5)}")
    return {path: dict(found.most_common()) for path, found in counted.items()}


class const_shape_dataloader:
    """A data loader whose batches have sequences of one length.

    Tensors of two and more dimensions are padded at the end of dimension 1 to `maxlen`: with zeros, those under a key
    `labels` with -100, which losses ignore. ValueError for a longer one.
    """

    def __init__(self, dl: Any, maxlen: int) -> None:
        self.dl = dl
        self.maxlen = maxlen

    def __len__(self) -> int:
        return len(self.dl)

    def __iter__(self) -> Iterator[Any]:
        return (self._padded(batch, 0) for batch in self.dl)

    def _padded(self, value: Any, fill: int) -> Any:
        if isinstance(value, torch.Tensor):
            return self._pad(value, fill)
        if isinstance(value, dict):
            return {key: self._padded(item, -100 if key == "labels" else 0) for key, item in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._padded(item, 0) for item in value))
        if isinstance(value, (list, tuple)):
            return type(value)(self._padded(item, 0) for item in value)
        return value

    def _pad(self, tensor: torch.Tensor, fill: int) -> torch.Tensor:
        if tensor.dim() < 2:
            return tensor
        missing = self.maxlen - tensor.shape[1]
        if missing < 0:
            raise ValueError(
                f"a batch has a tensor of shape {list(tensor.shape)}, longer than maxlen={self.maxlen}; "
                "give a larger maxlen or truncate the data"
            )
        padding = [0, 0] * (tensor.dim() - 2) + [0, missing]
        return torch.nn.functional.pad(tensor, padding, value=fill) if missing else tensor
