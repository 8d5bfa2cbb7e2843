"""images: a folder of photographs through torch's DataLoader and through HabanaDataLoader, with equal workers.

Each peer is a process of its own, asked in turns (benchmarks/images_probe.py). Needs torchvision.
"""

from __future__ import annotations

from benchmarks.children import probe
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import Spread


def _measured(transforms: str, workers: int, rounds: int) -> tuple[dict[str, list[float]], set[float]]:
    """Images a second of each peer, and the sums of what they gave."""
    found: dict[str, list[float]] = {"torch": [], "here": []}
    sums = set()
    for _ in range(rounds):
        for peer in found:
            measured = probe("benchmarks.images_probe", "measure", peer, transforms, str(workers))
            found[peer].append(measured["images a second"])
            sums.add(round(measured["sum"], 3))
    return found, sums


def images(rounds: int) -> list[Table]:
    """Images a second, of the transforms of training and of evaluation."""
    table = Table(
        "Images of 500 x 375 a second, batches of 32", ["transforms", "workers", "torch", "here", "torch / here"]
    )
    if not probe("benchmarks.images_probe", "there")["there"]:
        table.notes.append("Left out: torchvision is not installed.")
        return [table]
    for transforms in ("training", "evaluation"):
        for workers in (1, 2):
            found, sums = part(f"{transforms}, {workers}", _measured, transforms, workers, rounds)
            if transforms == "evaluation" and len(sums) != 1:
                raise AssertionError(f"the peers' images differ: {sums}")
            ratio = Spread.of([a / b for a, b in zip(found["torch"], found["here"], strict=True)])
            table.rows.append([transforms, workers, Spread.of(found["torch"]), Spread.of(found["here"]), ratio])
    table.notes.append("From the first batch asked for to the last one there, without the start of workers' processes.")
    return [table]
