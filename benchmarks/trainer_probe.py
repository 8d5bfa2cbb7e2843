"""A Hugging Face Trainer in a process of its own.

`name`: "GPT-2" or "BERT", tiny, made from a configuration, without dropout, so that losses can be compared. The loop
is the Trainer's own, with its own optimizer. First steps are timed until they are done, and so are all.
"""

import tempfile
import time
from typing import Any

import torch

import openhpu
from openhpu import hpu

FIRST = 30
_RECIPES_S = 120.0
_WORDS, _LENGTH, _BATCH = 256, 16, 8


def _gpt2(transformers: Any) -> Any:
    config = transformers.GPT2Config(
        vocab_size=_WORDS, n_positions=64, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def _bert(transformers: Any) -> Any:
    config = transformers.BertConfig(
        vocab_size=_WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config)


MODELS = {"GPT-2": _gpt2, "BERT": _bert}


def train(name: str, device: str, steps: int) -> dict[str, float]:
    """Train; the seconds of the first steps, those of a step over all, and the mean loss."""
    import transformers

    torch.manual_seed(0)
    model = MODELS[name](transformers)
    words = torch.randint(1, _WORDS, (64 * _BATCH, _LENGTH))
    data = [{"input_ids": row, "labels": row.clone()} for row in words]
    started = ended_first = ended = 0.0

    def wait() -> float:
        if device == "hpu":
            hpu.synchronize()
        return time.perf_counter()

    class Clock(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            nonlocal started
            started = wait()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            nonlocal ended_first
            if state.global_step == FIRST:
                ended_first = wait()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            nonlocal ended
            ended = wait()

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=_BATCH, report_to=[], save_strategy="no",
            disable_tqdm=True, use_cpu=device == "cpu", logging_steps=max(steps, 500),
        )  # fmt: skip
        trainer = transformers.Trainer(model, arguments, train_dataset=data, callbacks=[Clock()])
        on = trainer.model.device.type
        if on != device:
            raise RuntimeError(f"the Trainer put the model on {on!r}, expected {device!r}")
        loss = trainer.train().training_loss
    if device == "hpu":
        openhpu.wait_for_recipes(_RECIPES_S)  # so that the next process finds them
    return {"first": ended_first - started, "step": (ended - started) / steps, "loss": loss}
