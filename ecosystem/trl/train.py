"""`python -m ecosystem.trl.train DEVICE FOLDER`: SFT, DPO and the others, in small; prints what they found as JSON."""

import json
import sys
import traceback
from pathlib import Path

import datasets
import peft
import torch
import transformers
import trl

from ecosystem import both
from ecosystem.both import logged, shaken
from ecosystem.transformers.models import TEXT
from ecosystem.words import SIZE, tokenizer

DEVICE = sys.argv[1]
FOLDER = Path(sys.argv[2])
STEPS = 4


def model(kind=transformers.LlamaForCausalLM, **config):
    torch.manual_seed(0)
    sizes = {"vocab_size": SIZE, "num_key_value_heads": 2, "max_position_embeddings": 128}
    made = kind(transformers.LlamaConfig(**TEXT | sizes | config))
    shaken(made, 0.05)
    # From a folder, since trainers make their model of reference from where a model came from.
    made.save_pretrained(FOLDER / kind.__name__)
    return kind.from_pretrained(FOLDER / kind.__name__)


def options(name, **changes):
    return both.options(FOLDER / name, DEVICE, STEPS, bf16=False, **changes)


TEXTS = [{"text": f"the cat sat on w{n} . the dog ran on w{n + 1}"} for n in range(20)]
PREFERENCES = [{"prompt": f"w{n} is", "chosen": f" good w{n}", "rejected": f" bad w{n + 1} ."} for n in range(20)]
JUDGED = [{"prompt": f"w{n} is", "completion": f" w{n + 1} .", "label": n % 2 == 0} for n in range(20)]
PROMPTS = [{"prompt": f"which colour is w{n}"} for n in range(16)]


def history(trainer, *names):
    """Of each name the values that were logged, and where it ran."""
    assert trainer.args.device.type == DEVICE
    assert all(p.device.type == DEVICE for p in trainer.model.parameters())
    return {name: logged(trainer, name) for name in names}


def sft(name, lora=False, **changes):
    data = datasets.Dataset.from_list(TEXTS)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM") if lora else None
    trainer = trl.SFTTrainer(
        model(),
        trl.SFTConfig(**options(name, max_length=32, **changes)),
        train_dataset=data,
        eval_dataset=data,
        processing_class=tokenizer(wrapped=False),
        peft_config=config,
    )
    trainer.train()
    return history(trainer, "loss", "grad_norm", "mean_token_accuracy") | {"eval": trainer.evaluate()["eval_loss"]}


def by(kind, made, rows, given, **more):
    """A trainer of this kind, which has trained."""
    trainer = getattr(trl, f"{kind}Trainer")(
        made,
        args=getattr(trl, f"{kind}Config")(**given),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer(wrapped=False),
        **more,
    )
    trainer.train()
    return trainer


def compared(name, kind, rows, *names, made=None):
    """By a trainer that learns what is better."""
    trainer = by(kind, made or model(), rows, options(name, max_length=32))
    return history(trainer, "loss", "grad_norm", *names)


def sampled(name, kind):
    """Learning from one's own samples: the devices draw other ones, so that only what must hold is compared."""
    seen = []

    def reward(completions, **_):
        """One that sampling can raise: the share of one word."""
        seen.append(completions)
        return [text.split().count("blue") / 8 for text in completions]

    given = options(name, per_device_train_batch_size=8, num_generations=4, max_completion_length=8, beta=0.05)
    trainer = by(kind, model(), PROMPTS, given, reward_funcs=reward)
    return history(trainer, "loss", "reward", "kl", "completions/mean_length") | {"samples": seen}


CASES = {
    "sft": sft,
    "sft, lora": lambda name: sft(name, lora=True),
    "sft, checkpointing": lambda name: sft(name, gradient_checkpointing=True),
    "sft, offloading": lambda name: sft(name, activation_offloading=True, gradient_checkpointing=False),
    "dpo": lambda name: compared(name, "DPO", PREFERENCES, "rewards/margins", "logps/chosen"),
    "reward": lambda name: compared(
        name, "Reward", PREFERENCES, made=model(transformers.LlamaForSequenceClassification, num_labels=1)
    ),
    "kto": lambda name: compared(name, "KTO", JUDGED),
    "grpo": lambda name: sampled(name, "GRPO"),
    "grpo, again": lambda name: sampled(name, "GRPO"),
    "rloo": lambda name: sampled(name, "RLOO"),
}
ACCELERATORS = ("sft, offloading", "grpo, again")  # not on the CPU


def main():
    found = {}
    for name, case in CASES.items():
        if DEVICE == "cpu" and name in ACCELERATORS:
            continue
        try:
            found[name] = case(name)
        except Exception as error:  # of one case: the others are tests of their own
            traceback.print_exc()
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
