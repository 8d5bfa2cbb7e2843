"""trainer: Hugging Face's Trainer with a tiny model, which needs `pip install openhpu[benchmarks]`.

Each peer trains in a process of its own, in turns; lazy mode from an empty recipe cache and from a full one. The model
is made from a configuration, without dropout, so that losses can be compared. The loop is the Trainer's own, with its
own optimizer. First steps are timed until they are done, and so are all.
"""

import importlib.util
import math
import tempfile
import time
from typing import Any

import torch

import openhpu
from benchmarks import children
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import Samples, Spread
from openhpu import hpu

MODELS = ("GPT-2", "BERT")
_STEPS, _FIRST = 300, 30
_RECIPES_S = 120.0
_WORDS, _LENGTH, _BATCH = 256, 16, 8
_COLD, _WARM = "hpu, lazy, no recipes yet", "hpu, lazy, recipes on disk"
_PEERS = {"CPU": "cpu", "CPU, again": "cpu", "hpu, eager": "hpu", _COLD: "hpu", _WARM: "hpu"}


def model(name: str) -> Any:
    """One of MODELS, of 2 layers of width 64."""
    import transformers

    if name == "GPT-2":
        config = transformers.GPT2Config(
            vocab_size=_WORDS,
            n_positions=64,
            n_embd=64,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
        return transformers.GPT2LMHeadModel(config)
    config = transformers.BertConfig(
        vocab_size=_WORDS,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.BertForMaskedLM(config)


def train(name: str, device: str) -> dict[str, float]:
    """Train; the seconds of the first steps, those of a step over all, and the mean loss."""
    import transformers

    torch.manual_seed(0)
    words = torch.randint(1, _WORDS, (64 * _BATCH, _LENGTH))
    ends: dict[int, float] = {}

    class Clock(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step in (0, _FIRST, _STEPS):
                if device == "hpu":
                    hpu.synchronize()
                ends[state.global_step] = time.perf_counter()

        on_train_begin = on_step_end

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            max_steps=_STEPS,
            per_device_train_batch_size=_BATCH,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=device == "cpu",
            logging_steps=500,
        )
        data = [{"input_ids": row, "labels": row.clone()} for row in words]
        trainer = transformers.Trainer(model(name), arguments, train_dataset=data, callbacks=[Clock()])
        if (on := trainer.model.device.type) != device:
            raise RuntimeError(f"the Trainer put the model on {on!r}, expected {device!r}")
        loss = trainer.train().training_loss
    if device == "hpu":
        openhpu.wait_for_recipes(_RECIPES_S)  # so that the next process finds them
    return {"first": ends[_FIRST] - ends[0], "step": (ends[_STEPS] - ends[0]) / _STEPS, "loss": loss}


def _round(name: str) -> dict[str, dict[str, float]]:
    """What each peer took. Raises AssertionError for losses that differ."""
    environment = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as recipes:
        environment["PT_HPU_RECIPE_CACHE_CONFIG"] = recipes
        found = {
            peer: children.probe("trainer:train", name, on, PT_HPU_LAZY_MODE=str(int("lazy" in peer)), **environment)
            for peer, on in _PEERS.items()
        }
    for peer, taken in found.items():
        if not math.isclose(taken["loss"], found["CPU"]["loss"], rel_tol=1e-2):
            raise AssertionError(f"{name}: loss {taken['loss']} of {peer}, {found['CPU']['loss']} of the CPU")
    return found


def trainer(rounds: int) -> list[Table]:
    """A table; `CPU, again` shows the spread. Raises RuntimeError where the Trainer is not installed."""
    if missing := [name for name in ("transformers", "accelerate") if importlib.util.find_spec(name) is None]:
        raise RuntimeError(f"not installed: {', '.join(missing)}; pip install openhpu[benchmarks]")
    columns = ["model", "peer", "ms a step", f"first {_FIRST}, ms", "/ CPU", "/ hpu eager", "first / eager's first"]
    table = Table(f"{_STEPS} steps of {_BATCH} x {_LENGTH}, fp32, 2 layers of width 64", columns)
    table.notes = ["Aims of lazy mode: <= 0.6 of the CPU, <= 1.0 of hpu eager, first steps <= 1.2 of eager's."]
    for name in MODELS:
        found = [part(f"{name}, {number}", _round, name) for number in range(rounds)]
        steps, firsts = (
            {peer: Samples(done=[one[peer][what] for one in found]) for peer in _PEERS} for what in ("step", "first")
        )
        for peer in _PEERS:
            table.rows.append(
                [
                    name,
                    peer,
                    Spread.of(steps[peer].done, 1e3),
                    Spread.of(firsts[peer].done, 1e3),
                    steps[peer].ratio_to(steps["CPU"]),
                    steps[peer].ratio_to(steps["hpu, eager"]),
                    firsts[peer].ratio_to(firsts["hpu, eager"]),
                ]
            )
    return [table]
