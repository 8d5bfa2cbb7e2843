"""Models of the lane `transformers`, with the settings that this one needs, and what is left of chance in them."""

import os
from typing import Any

import torch
import transformers

from ecosystem.transformers import support
from ecosystem.transformers.models import MODELS, Model

CHANGED: dict[str, dict[str, Any]] = {
    "JambaForCausalLM": {"use_mamba_kernels": False},  # which are not installed
    "MixtralForCausalLM": {"output_router_logits": False},  # optimum-habana takes a tensor for their loss
    # Windows shorter than the prompt: optimum-habana's attention has none.
    "MistralForCausalLM": {"sliding_window": None},
    "Gemma3ForCausalLM": {"sliding_window": 64},
}
LAZY = os.environ.get("PT_HPU_LAZY_MODE") == "1"
NEW = 6
LENGTH = {"max_new_tokens": NEW, "min_new_tokens": NEW, "pad_token_id": 0, "do_sample": False}


def without_chance(config: Any) -> Any:
    """The configuration without dropouts and noise: a training step is compared with the CPU's."""
    for name, value in vars(config).items():
        if isinstance(value, transformers.PretrainedConfig):
            without_chance(value)
        elif isinstance(value, float) and ("drop" in name or "noise" in name):
            setattr(config, name, 0.0)
    return config


def make(model: Model) -> Any:
    """The model on the CPU, its weights random."""
    torch.manual_seed(0)
    kind = getattr(transformers, model.name)
    return kind(without_chance(kind.config_class(**model.config | CHANGED.get(model.name, {}))))


def arguments(model: Model, device: str) -> dict[str, Any]:
    """Inputs. A position that the mask leaves out predicts nothing: what it attends to is anyone's choice."""
    given = support.arguments(model, device)
    mask, labels = given.get("attention_mask"), given.get("labels")
    if mask is not None and isinstance(labels, torch.Tensor) and labels.shape == mask.shape:
        before = torch.nn.functional.pad(mask[:, :-1], (1, 0))
        given["labels"] = labels.masked_fill(mask * before == 0, -100)
    return given


KEYS = {model.key: model for model in MODELS}
