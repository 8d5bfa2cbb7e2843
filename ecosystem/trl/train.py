"""`python -m ecosystem.trl.train DEVICE FOLDER`: SFT, DPO and the others, in small; prints what they found as JSON."""

import json
import sys
from pathlib import Path

import datasets
import peft
import torch
import transformers
import trl

from ecosystem.words import SIZE, tokenizer

DEVICE, FOLDER = sys.argv[1], Path(sys.argv[2])
STEPS = 4


def model(kind=transformers.LlamaForCausalLM, **config):
    torch.manual_seed(0)
    made = kind(
        transformers.LlamaConfig(
            vocab_size=SIZE,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=64,
            max_position_embeddings=128,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            **config,
        )
    )
    with torch.no_grad():
        for p in made.parameters():
            if p.ndim > 1:
                p.add_(torch.randn(p.shape) * 0.05)
    return made


def options(name, **changes):
    return {
        "output_dir": str(FOLDER / name), "max_steps": STEPS, "per_device_train_batch_size": 4, "logging_steps": 1,
        "learning_rate": 1e-3, "report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": DEVICE == "cpu",
        "seed": 3, "bf16": False, **changes,
    }  # fmt: skip


def texts():
    return datasets.Dataset.from_dict({"text": [f"the cat sat on w{n} . the dog ran on w{n + 1}" for n in range(20)]})


def chats():
    return datasets.Dataset.from_list(
        [
            {"prompt": [{"role": "user", "content": f"which colour is w{n}"}],
             "completion": [{"role": "assistant", "content": f"w{n} is blue"}]}
            for n in range(20)
        ]
    )  # fmt: skip


def preferences():
    rows = [{"prompt": f"w{n} is", "chosen": f" good w{n}", "rejected": f" bad w{n + 1} ."} for n in range(20)]
    return datasets.Dataset.from_list(rows)


def history(trainer, *names):
    """Of each name the values that were logged, and where it ran."""
    assert trainer.args.device.type == DEVICE
    assert all(p.device.type == DEVICE for p in trainer.model.parameters())
    log = trainer.state.log_history
    return {name: [entry[name] for entry in log if name in entry] for name in names}


def sft(name, data, lora=False, **changes):
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM") if lora else None
    trainer = trl.SFTTrainer(
        model(), trl.SFTConfig(**options(name, max_length=32, **changes)), train_dataset=data, eval_dataset=data,
        processing_class=tokenizer(wrapped=False), peft_config=config,
    )  # fmt: skip
    trainer.train()
    return history(trainer, "loss", "grad_norm", "mean_token_accuracy") | {"eval": trainer.evaluate()["eval_loss"]}


def dpo(name, **changes):
    trainer = trl.DPOTrainer(
        model(), args=trl.DPOConfig(**options(name, max_length=32, **changes)), train_dataset=preferences(),
        processing_class=tokenizer(wrapped=False),
    )  # fmt: skip
    trainer.train()
    return history(trainer, "loss", "grad_norm", "rewards/margins", "logps/chosen")


def reward():
    trainer = trl.RewardTrainer(
        model(transformers.LlamaForSequenceClassification, num_labels=1),
        args=trl.RewardConfig(**options("reward", max_length=32)),
        train_dataset=preferences(), processing_class=tokenizer(wrapped=False),
    )  # fmt: skip
    trainer.train()
    return history(trainer, "loss", "grad_norm")


def kto():
    rows = [{"prompt": f"w{n} is", "completion": f" w{n + 1} .", "label": n % 2 == 0} for n in range(20)]
    trainer = trl.KTOTrainer(
        model(), args=trl.KTOConfig(**options("kto", max_length=32)), train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer(wrapped=False),
    )  # fmt: skip
    trainer.train()
    return history(trainer, "loss", "grad_norm")


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


def main():
    found = {
        "sft": sft("sft", texts()),
        "sft, chats": sft("chats", chats()),
        "sft, packed": sft("packed", texts(), packing=True, packing_strategy="wrapped"),
        "sft, lora": sft("lora", texts(), lora=True),
        "sft, checkpointing": sft("checkpointing", texts(), gradient_checkpointing=True),
        "dpo": dpo("dpo"),
        "dpo, ipo": dpo("ipo", loss_type=["ipo"]),
        "dpo, precomputed": dpo("precomputed", precompute_ref_log_probs=True),
        "reward": reward(),
        "kto": kto(),
        "grpo": sampled("grpo", trl.GRPOTrainer, trl.GRPOConfig),
        "grpo, again": sampled("again", trl.GRPOTrainer, trl.GRPOConfig),
        "rloo": sampled("rloo", trl.RLOOTrainer, trl.RLOOConfig),
    }
    if DEVICE == "hpu":  # from an accelerator only
        changes = {"activation_offloading": True, "gradient_checkpointing": False}
        found["sft, offloading"] = sft("offloading", texts(), **changes)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
