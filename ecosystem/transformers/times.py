"""A training step of Trainer and a generated token, in lazy mode and on the CPU.

Trainer's device is one for its process, so that each training has one of its own; they take turns.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.children import probe
from benchmarks.timing import Spread, calm_malloc
from benchmarks.trainer_probe import MODELS
from ecosystem import times
from ecosystem.transformers.models import MODELS as TABLE
from ecosystem.transformers.support import make

TOKENS = 16


def trainer(name: str, rounds: int, steps: int) -> times.Row:
    """Trainer's step over all of a training, on either device in turns."""
    found: dict[str, list[float]] = {"cpu": [], "hpu": []}
    probe("trainer_probe:train", name, "hpu", steps, PT_HPU_LAZY_MODE="1")  # its recipes are then on disk
    for _ in range(rounds):
        for device, measured in found.items():
            answer = probe("trainer_probe:train", name, device, steps, PT_HPU_LAZY_MODE="1")
            measured.append(answer["step"])
            time.sleep(0.1)
    ratios = [hpu / cpu for hpu, cpu in zip(found["hpu"], found["cpu"], strict=True)]
    return times.Row(f"Trainer, {name}", Spread.of(found["cpu"]), Spread.of(found["hpu"]), Spread.of(ratios))


def generation(name: str, device: str) -> Callable[[], object]:
    """Greedy generation of some tokens with a static cache."""
    model = make(next(row for row in TABLE if row.name == name)).to(device)
    ids = torch.arange(24).reshape(2, 12).add(5).to(device)
    options = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "pad_token_id": 0, "do_sample": False}
    return lambda: model.generate(ids, attention_mask=torch.ones_like(ids), **options)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    busy, rounds = os.getloadavg()[0], 2 if quick else 7
    rows = [trainer(name, rounds, 100 if quick else 600) for name in list(MODELS)[: 1 if quick else None]]
    calm_malloc()
    for name in ("GPT2LMHeadModel", "LlamaForCausalLM", "T5ForConditionalGeneration")[: 1 if quick else None]:
        rows.append(times.measure(f"generate, {name}, {TOKENS} tokens", partial(generation, name), rounds))
    times.print_table(rows, busy, rounds)


if __name__ == "__main__":
    main()
