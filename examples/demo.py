"""Trains both example models on hpu, eagerly and in lazy mode, beside the same training on PyTorch's CPU device.

It prints first what it does and how long it takes, and at the end the results.

python -m examples.demo

Each trains in a process of its own. They take turns, a stretch of steps each, so that other work on the machine slows
all of them alike. Recurring graphs are compiled before the clock starts. Exits with 1 if a model did not learn.
"""

import argparse
import os
import platform
import statistics
import sys
import textwrap
from contextlib import ExitStack
from typing import Any

import torch
from tqdm import tqdm

import openhpu
from benchmarks.children import ask_all
from commands.budget import Budget, end_with
from commands.child import ChildError
from examples.peer import Peer

PEERS: dict[str, dict[str, Any]] = {
    "hpu, lazy": {"device": "hpu", "lazy": True},
    "hpu, eager": {"device": "hpu"},
    "CPU": {"device": "cpu"},
    "CPU, fused AdamW": {"device": "cpu", "fused": True},
    "CPU, torch.compile": {"device": "cpu", "fused": True, "compiled": True},
}
MINUTES = 4.0
COLUMNS = 100
DURATION = "It takes about two minutes on two idle cores, and ends after four."
WARM_UP = 2  # stretches that are trained but not timed
MIN_ACCURACY = 0.95
# The model must do better than one that knows only how frequent each character is, by this much (nats a character).
MIN_GAIN = 0.5


def take_turns(budget: Budget, model: str, peers: dict[str, Peer], stretches: int, steps: int | None) -> dict[str, Any]:
    """Let each peer train for `stretches` stretches, in turns. Seconds a step and last loss by peer.

    In the first one, which is not timed, those that compile do it side by side.
    """
    arguments = () if steps is None else (steps,)
    found: dict[str, Any] = {name: {"seconds": [], "loss": 0.0} for name in peers}
    with tqdm(total=stretches * len(peers), unit="turn", ncols=COLUMNS) as bar:

        def show(name: str, what: str) -> None:
            bar.set_description(f"{model}: {name} {what}".ljust(40))
            budget.progress(model, f"{name} {what}")

        compiling = {name: peer for name, peer in peers.items() if peer.lazy or peer.compiled}
        show(" and ".join(compiling), "compile")
        ask_all([*compiling.values()], "train", *arguments)
        ask_all([*compiling.values()], "wait")
        bar.update(len(compiling))
        for stretch in range(stretches):
            for name, peer in peers.items():
                if stretch == 0 and name in compiling:
                    continue
                show(name, "trains")
                found[name]["loss"], seconds = peer.answer_to("train", *arguments)
                if stretch >= WARM_UP or stretch == stretches - 1:
                    found[name]["seconds"].append(seconds)
                peer.answer_to("wait")
                bar.update()
            if stretch:
                bar.set_postfix(loss=f"{found['hpu, lazy']['loss']:.3f}")
    budget.done(model)
    return found


def say(text: str, indent: str = "") -> None:
    """Print a paragraph in lines that fit."""
    print(textwrap.fill(text, COLUMNS, initial_indent=indent, subsequent_indent=f"{indent}  "))


def print_report(report: dict[str, Any], name: str) -> None:
    """What ran on a device."""
    if report["graphs"]:
        say(f"{name}: Inductor compiled {report['graphs']} graphs", "  ")
        return
    counters = report["counters"]
    waited, fallbacks = counters["ops_waited"], counters["ops_fallback"]
    if counters["ops_recorded"]:
        recorded = counters["ops_recorded"]
        say(
            f"{name}: {recorded:,} operators recorded, {counters['ops_in_recipes'] / recorded:.1%} of them ran in "
            f"{report['recipes']} recipes (compiled graphs); {waited:,} waits, {fallbacks:,} fallbacks",
            "  ",
        )
    else:
        say(
            f"{name}: {counters['ops_submitted']:,} operators queued without a wait; {waited:,} waits, {fallbacks:,} "
            f"fallbacks to the host; peak memory {report['peak'] / 2**20:.1f} MiB",
            "  ",
        )
    for op, number in sorted(report["fallbacks"].items()):
        say(f"fallback: {op}, {number} times", "    ")


def print_times(found: dict[str, Any], quality: dict[str, float], what: str) -> None:
    """A row for each peer."""
    reference = statistics.median(found["CPU"]["seconds"])
    print(f"  {'':18} {what:>15} {'training loss':>13} {'ms a step':>9}  {'(range)':17} {'of CPU':>6}")
    for name, values in found.items():
        median = statistics.median(values["seconds"])
        spread = f"({min(values['seconds']) * 1e3:.2f} to {max(values['seconds']) * 1e3:.2f})"
        print(
            f"  {name:18} {quality[name]:>15.4f} {values['loss']:>13.4f} {median * 1e3:>9.2f}  {spread:17} "
            f"{median / reference:>6.2f}"
        )


def run(
    budget: Budget, title: str, model: str, what: str, stretches: int, steps: int | None
) -> tuple[float, float, str]:
    """Train one model everywhere and print what was measured. Returns lazy mode's quality, the baseline and a text."""
    with ExitStack() as stack:
        peers = {name: stack.enter_context(Peer(model, **kind)) for name, kind in PEERS.items()}
        found = take_turns(budget, model, peers, stretches, steps)
        quality = {name: peer.answer_to("quality") for name, peer in peers.items()}
        reports = {name: peer.answer_to("report") for name, peer in peers.items()}
        baseline, text = peers["hpu, lazy"].answer_to("baseline"), peers["hpu, lazy"].answer_to("write")
        for peer in peers.values():
            peer.end()
    print(f"\n{title}")
    print_times(found, quality, what)
    for name, report in reports.items():
        if name.startswith("hpu") or report["graphs"]:
            print_report(report, name)
    return quality["hpu, lazy"], baseline, text


def main() -> int:
    """Run both; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8, help="epochs on the digits")
    parser.add_argument("--stretches", type=int, default=4, help="turns of each GPT")
    parser.add_argument("--steps", type=int, default=40, help="steps of a GPT in one turn")
    args = parser.parse_args()
    if min(args.epochs, args.stretches) < 2:
        parser.error("--epochs and --stretches: at least 2, since the first one compiles and is not timed")
    introduce(args)
    with Budget("make demo", MINUTES) as budget:
        try:
            return demo(args, budget)
        except ChildError as error:
            print(f"make demo: {error}", file=sys.stderr)
            return 1


def introduce(args: argparse.Namespace) -> None:
    """What the demo does, and how long it takes."""
    say(
        f"This demo trains two models: a CNN on images of digits ({args.epochs} epochs), and a small GPT "
        f"({args.stretches * args.steps} steps). Each trains in {len(PEERS)} ways: {'; '.join(PEERS)}. They take "
        f"turns, each in a process of its own, and the first turns also compile. {DURATION}"
    )
    say(
        f"OpenHPU {openhpu.__version__}, PyTorch {torch.__version__}, {platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads. Times are medians over the turns."
    )


def demo(args: argparse.Namespace, budget: Budget) -> int:
    """Both trainings; the exit status."""
    budget.planned(("digits", "gpt"))
    accuracy, _, _ = run(budget, "CNN on scikit-learn's digits, batch 64", "digits", "test accuracy", args.epochs, None)
    loss, baseline, text = run(
        budget,
        f"GPT on Python's help texts, {args.stretches * args.steps} steps, batch 8 x 64 characters",
        "gpt",
        "validation loss",
        args.stretches,
        args.steps,
    )
    say(f"for comparison: a model that knows only character frequencies has validation loss {baseline:.3f}", "  ")
    say(f"it writes: {text!r}", "  ")
    learned = {"digits": accuracy >= MIN_ACCURACY, "GPT": loss <= baseline - MIN_GAIN}
    for name, success in learned.items():
        if not success:
            print(f"the {name} model did not learn", file=sys.stderr)
    return 0 if all(learned.values()) else 1


if __name__ == "__main__":
    end_with(main)
