"""How Trainer is configured, in each test of it."""

from typing import Any

STEPS = 6
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "bfloat16": {"bf16": True},
    "accumulation": {"gradient_accumulation_steps": 2, "max_grad_norm": 0.1},
    "checkpointing": {"gradient_checkpointing": True},
    "sgd": {"optim": "sgd", "lr_scheduler_type": "cosine", "warmup_steps": 2},
    "adafactor": {"optim": "adafactor"},
    "unfused": {"optim": "adamw_torch", "weight_decay": 0.1},
    "label smoothing": {"label_smoothing_factor": 0.1},
    "workers": {"dataloader_num_workers": 1},
}
