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

DEVICE, FOLDER = sys.argv[1], Path(sys.argv[2])
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


def texts():
    return datasets.Dataset.from_dict({"text": [f"the cat sat on w{n} . the dog ran on w{n + 1}" for n in range(20)]})


def preferences():
    rows = [{"prompt": f"w{n} is", "chosen": f" good w{n}", "rejected": f" bad w{n + 1} ."} for n in range(20)]
    return datasets.Dataset.from_list(rows)


def history(trainer, *names):
    """Of each name the values that were logged, and where it ran."""
    assert trainer.args.device.type == DEVICE
    assert all(p.device.type == DEVICE for p in trainer.model.parameters())
    return {name: logged(trainer, name) for name in names}


def sft(name, data, lora=False, **changes):
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM") if lora else None
    trainer = trl.SFTTrainer(
        model(), trl.SFTConfig(**options(name, max_length=32, **changes)), train_dataset=data, eval_dataset=data,
        processing_class=tokenizer(wrapped=False), peft_config=config,
    )  # fmt: skip
    trainer.train()
    return history(trainer, "loss", "grad_norm", "mean_token_accuracy") | {"eval": trainer.evaluate()["eval_loss"]}


def trained(name, kind, data, *names, made=None):
    """By a trainer of this kind, which learns what is better."""
    trainer = getattr(trl, f"{kind}Trainer")(
        made or model(), args=getattr(trl, f"{kind}Config")(**options(name, max_length=32)),
        train_dataset=data, processing_class=tokenizer(wrapped=False),
    )  # fmt: skip
    trainer.train()
    return history(trainer, "loss", "grad_norm", *names)


def dpo(name):
    return trained(name, "DPO", preferences(), "rewards/margins", "logps/chosen")


def reward(name):
    made = model(transformers.LlamaForSequenceClassification, num_labels=1)
    return trained(name, "Reward", preferences(), made=made)


def kto(name):
    rows = [{"prompt": f"w{n} is", "completion": f" w{n + 1} .", "label": n % 2 == 0} for n in range(20)]
    return trained(name, "KTO", datasets.Dataset.from_list(rows))


def words_that_are_blue(completions, **_):
    """A reward that sampling can raise: the share of one word."""
    return [text.split().count("blue") / 8 for text in completions]


def sampled(name, trainer_class, config_class, **changes):
    """Learning from one's own samples: the devices draw other ones, so that only what must hold is compared."""
    prompts = datasets.Dataset.from_list([{"prompt": f"which colour is w{n}"} for n in range(16)])
    seen = []

    def reward(completions, **rest):
        seen.append(completions)
        return words_that_are_blue(completions, **rest)

    trainer = trainer_class(
        model(), reward_funcs=reward, train_dataset=prompts, processing_class=tokenizer(wrapped=False),
        args=config_class(
            **options(name, per_device_train_batch_size=8), num_generations=4, max_completion_length=8, beta=0.05,
            **changes,
        ),
    )  # fmt: skip
    trainer.train()
    return history(trainer, "loss", "reward", "kl", "completions/mean_length") | {"samples": seen}


CASES = {
    "sft": lambda name: sft(name, texts()),
    "sft, lora": lambda name: sft(name, texts(), lora=True),
    "sft, checkpointing": lambda name: sft(name, texts(), gradient_checkpointing=True),
    "sft, offloading": lambda name: sft(name, texts(), activation_offloading=True, gradient_checkpointing=False),
    "dpo": dpo,
    "reward": reward,
    "kto": kto,
    "grpo": lambda name: sampled(name, trl.GRPOTrainer, trl.GRPOConfig),
    "grpo, again": lambda name: sampled(name, trl.GRPOTrainer, trl.GRPOConfig),
    "rloo": lambda name: sampled(name, trl.RLOOTrainer, trl.RLOOConfig),
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
