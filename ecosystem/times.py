"""Times of a step in lazy mode beside the CPU device's, in turns in one process; printed as a table in Markdown.

`main` is called by a lane's module with the steps that it is about. Measured on a machine that is busy otherwise they
mean nothing: the table says how busy it was.
"""

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

import habana_frameworks.torch.core as htcore
import openhpu
from benchmarks.timing import Peer, Spread, calm_malloc, in_turns

Factory = Callable[[str], Callable[[], object]]  # of a device: its step
# The first sights of a graph, until it is known to recur.
_SIGHTS = 6
_RECIPES_S = 900.0


@dataclass(frozen=True)
class Row:
    """A line of the table: seconds of a step."""

    name: str
    cpu: Spread
    hpu: Spread
    ratio: Spread

    def text(self) -> str:
        """The line, in Markdown."""
        kept = "yes" if self.ratio.median <= 1 else "no"
        low, high = self.ratio.low, self.ratio.high
        return (
            f"| {self.name} | {self.cpu.median * 1e3:.1f} | {self.hpu.median * 1e3:.1f} | {self.ratio.median:.2f} "
            f"({low:.2f} to {high:.2f}) | {kept} |"
        )


def mark(device: str) -> None:
    """The end of a part of a step, as Gaudi's scripts mark it."""
    if device == "hpu":
        htcore.mark_step()


def measure(name: str, factory: Factory, rounds: int) -> Row:
    """Time a step on both devices, once its graphs are compiled."""
    on_hpu, on_cpu = factory("hpu"), factory("cpu")
    for _ in range(3):  # compiling changes what is recorded: a step becomes one graph when its parts are known
        for _ in range(_SIGHTS):
            on_hpu()
        openhpu.wait_for_recipes(_RECIPES_S)
    samples = in_turns([Peer("cpu", on_cpu), Peer("hpu", on_hpu, on_hpu=True)], rounds, 3)
    cpu, hpu = samples["cpu"], samples["hpu"]
    return Row(name, Spread.of(cpu.done), Spread.of(hpu.done), hpu.ratio_to(cpu))


def print_table(rows: list[Row], busy: float, rounds: int) -> None:
    """The table and what is said of it."""
    print(
        f"Milliseconds of a step, medians of {rounds} rounds in turns, {torch.get_num_threads()} threads; the ratio is "
        "hpu in lazy mode to the CPU device, the median of the rounds' own with the lowest and highest."
    )
    if busy > 0.5:
        print(f"\n**The machine was busy ({busy:.1f} processes at the start): these are no measurements.**")
    print("\n| step | CPU | hpu, lazy | ratio | no slower |\n| --- | --- | --- | --- | --- |")
    print("\n".join(row.text() for row in rows))


def main(steps: Mapping[str, Factory]) -> None:
    """Measure each of the steps and print the table. `--quick`: two of them, in few rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    busy, rounds = os.getloadavg()[0], 3 if quick else 15
    calm_malloc()
    chosen = list(steps.items())[: 2 if quick else None]
    print_table([measure(name, factory, rounds) for name, factory in chosen], busy, rounds)
