"""The metrics of this lane and what they are updated with, fixed here so that runs compare."""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

ROWS = 24
CLASSES = 4
LABELS = 3
Arguments = tuple[Any, ...]


def _vectors() -> Arguments:
    return torch.randn(ROWS, 5), torch.randn(ROWS, 5)


def _pictures() -> Arguments:
    return torch.rand(2, 3, 48, 48), torch.rand(2, 3, 48, 48)


def _words() -> Arguments:
    return ["the cat sat on the mat", "a dog"], ["a cat sat on a mat", "the dog ran"]


def _boxes(scored: bool) -> list[dict[str, torch.Tensor]]:
    found = []
    for _ in range(2):
        corners = torch.rand(4, 2) * 50
        one = {"boxes": torch.cat([corners, corners + 20], 1), "labels": torch.randint(2, (4,))}
        found.append(one | ({"scores": torch.rand(4)} if scored else {}))
    return found


_INPUTS: dict[str, Callable[[], Arguments]] = {
    "binary": lambda: (torch.rand(ROWS), torch.randint(2, (ROWS,))),
    "classes": lambda: (torch.randn(ROWS, CLASSES).softmax(1), torch.randint(CLASSES, (ROWS,))),
    "labels": lambda: (torch.rand(ROWS, LABELS), torch.randint(2, (ROWS, LABELS))),
    "numbers": lambda: (torch.randn(ROWS).abs() + 0.1, torch.randn(ROWS).abs() + 0.1),
    "vectors": _vectors,
    "distributions": lambda: (torch.rand(ROWS, 5).softmax(1), torch.rand(ROWS, 5).softmax(1)),
    "pictures": _pictures,
    "picture": lambda: _pictures()[:1],
    "sounds": lambda: (torch.randn(2, 400), torch.randn(2, 400)),
    "clusters": lambda: (torch.randint(3, (ROWS,)), torch.randint(3, (ROWS,))),
    "grouped": lambda: (_vectors()[0], torch.arange(ROWS) % 3),
    "ranked": lambda: (torch.rand(ROWS), torch.randint(2, (ROWS,)), torch.arange(ROWS) // 6),
    "segments": lambda: (torch.randint(2, (2, CLASSES, 8, 8)), torch.randint(2, (2, CLASSES, 8, 8))),
    "words": _words,
    "texts": lambda: (_words()[0], [[text] for text in _words()[1]]),
    "boxes": lambda: (_boxes(True), _boxes(False)),
    "number": lambda: (torch.randn(()),),
    "one number": lambda: (torch.randn(ROWS),),
    "probabilities": lambda: (torch.randn(2, 6, 10), torch.randint(10, (2, 6))),
}


def _metrics() -> Iterator[tuple[str, tuple[str, dict[str, Any], Callable[[], Arguments]]]]:
    for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["row"]:
        for variant in row.get("variants", [row]):
            given = variant.get("options", {}).items()
            options = {key: tuple(value) if isinstance(value, list) else value for key, value in given}
            for name in row["names"]:
                full = f"{row.get('module', '')}{name}"
                yield full + variant.get("more", ""), (full, options, _INPUTS[variant["inputs"]])


# Of each: class, constructor's arguments, inputs.
METRICS = dict(_metrics())
