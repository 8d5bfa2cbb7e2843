"""Trains both example models on hpu, beside the same training on PyTorch's CPU device, and says how it went.

python -m examples.demo

The three run in turns, a stretch of steps each, so that whatever else the machine does meets all of them alike. Exits
with 1 if a model did not learn.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from tqdm import tqdm

import openhpu
from examples import digits, gpt_chars
from openhpu import events, hpu

# (column, device, whether AdamW is asked for its fused form; hpu takes that by default)
PEERS = (("hpu", "hpu", False), ("CPU", "cpu", False), ("CPU, fused AdamW", "cpu", True))
MIN_ACCURACY = 0.95
# The model must do better than one that knows only how frequent each character is, by this much (nats a character).
MIN_GAIN = 0.5


class Training(Protocol):
    """What the demo needs of a peer's training: one stretch of steps."""

    def __call__(self, bar: tqdm[Any]) -> tuple[float, float]:
        """Train, advance the bar; return the mean loss and the seconds per step."""


@dataclass
class Outcome:
    """What was measured of one model."""

    seconds: dict[str, list[float]]
    losses: dict[str, float]
    counters: dict[str, int] = field(default_factory=dict)
    fallbacks: dict[str, int] = field(default_factory=dict)
    hpu_steps: int = 0
    peak_memory: int = 0


def take_turns(title: str, peers: dict[str, Training], stretches: int, steps: int) -> Outcome:
    """Let each peer train for `stretches` stretches of `steps` steps, in turns."""
    outcome = Outcome({name: [] for name in peers}, {}, hpu_steps=stretches * steps)
    openhpu.reset_counters()
    hpu.reset_peak_memory_stats()
    with tqdm(total=stretches * steps * len(peers), desc=title, unit="step", mininterval=1) as bar:
        for stretch in range(stretches):
            for name, train in peers.items():
                loss, seconds = train(bar)
                outcome.losses[name] = loss
                if stretch or stretches == 1:  # the first one warms up
                    outcome.seconds[name].append(seconds)
            bar.set_postfix(loss=f"{outcome.losses['hpu']:.3f}")
    outcome.counters = openhpu.counters()
    outcome.fallbacks = events.fallback_ops()
    outcome.peak_memory = hpu.max_memory_allocated()
    return outcome


def print_outcome(title: str, outcome: Outcome, quality: Callable[[str], str]) -> None:
    """Print what was measured; `quality(peer)` is the text for one peer's model."""
    print(f"\n{title}")
    reference = statistics.median(outcome.seconds["CPU"])
    for name, values in outcome.seconds.items():
        median = statistics.median(values)
        spread = f"{min(values) * 1e3:.2f} to {max(values) * 1e3:.2f}"
        print(
            f"  {name:17} {quality(name)}, training loss {outcome.losses[name]:.4f}, "
            f"{median * 1e3:.2f} ms a step ({spread}), {median / reference:.2f} of CPU's"
        )
    counters = outcome.counters
    total = counters["ops_submitted"] + counters["ops_waited"] + counters["ops_fallback"]
    print(
        f"  operators on hpu  {total:,}, {total / outcome.hpu_steps:.0f} a step: {counters['ops_submitted']:,} queued "
        f"without waiting, {counters['ops_waited']:,} waited for, {counters['ops_fallback']:,} fallbacks to the host"
    )
    for name, number in sorted(outcome.fallbacks.items()):
        print(f"  fallback          {name}, {number} times")
    print(f"  peak memory       {outcome.peak_memory / 2**20:.1f} MiB on hpu")


def run_digits(epochs: int) -> bool:
    """The digits. Returns whether the model learned."""
    trainers = {name: digits.Trainer(device, fused=fused) for name, device, fused in PEERS}
    steps = trainers["hpu"].steps_per_epoch
    outcome = take_turns("digits", {n: t.train_epoch for n, t in trainers.items()}, epochs, steps)
    accuracy = {name: trainer.accuracy() for name, trainer in trainers.items()}
    print_outcome(
        f"CNN on scikit-learn's digits: {epochs} epochs of {steps} steps, batch {trainers['hpu'].batch_size}",
        outcome,
        lambda name: f"test accuracy {accuracy[name]:.2%}",
    )
    return accuracy["hpu"] >= MIN_ACCURACY


def run_gpt(stretches: int, steps: int) -> bool:
    """The GPT. Returns whether the model learned."""
    trainers = {name: gpt_chars.Trainer(device, fused=fused) for name, device, fused in PEERS}

    def training(trainer: gpt_chars.Trainer) -> Training:
        return lambda bar: trainer.train(steps, bar)

    outcome = take_turns("GPT", {n: training(t) for n, t in trainers.items()}, stretches, steps)
    loss = {name: trainer.validation_loss() for name, trainer in trainers.items()}
    baseline = trainers["hpu"].text.frequency_loss()
    print_outcome(
        f"GPT on Python's help texts: {stretches * steps} steps, batch {trainers['hpu'].batch_size} x "
        f"{trainers['hpu'].model.context} characters",
        outcome,
        lambda name: f"validation loss {loss[name]:.3f}",
    )
    print(f"  for comparison    a model that knows only character frequencies has validation loss {baseline:.3f}")
    print(f"  it writes         {trainers['hpu'].write()!r}")
    return loss["hpu"] <= baseline - MIN_GAIN


def main(argv: Sequence[str] | None = None) -> int:
    """Run both; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12, help="epochs on the digits")
    parser.add_argument("--stretches", type=int, default=8, help="turns of each GPT")
    parser.add_argument("--steps", type=int, default=50, help="steps of a GPT in one turn")
    args = parser.parse_args(argv)

    print(
        f"OpenHPU {openhpu.__version__}, PyTorch {torch.__version__}, {platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads; times are medians over the turns (fastest to slowest)"
    )
    learned = {"digits": run_digits(args.epochs), "GPT": run_gpt(args.stretches, args.steps)}
    for name, success in learned.items():
        if not success:
            print(f"the {name} model did not learn", file=sys.stderr)
    return 0 if all(learned.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
