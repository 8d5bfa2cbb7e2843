"""DeepSpeed's configuration: its source, the part for inference, and early checks."""

import importlib.util
import json
import os
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from lightning_habana import roots

CONFIG_VARIABLE = "PL_DEEPSPEED_CONFIG_PATH"
_NVME = {"remote_device": "nvme", "offload_params_device": "nvme", "offload_optimizer_device": "nvme"}
_OFFLOAD = {"stage": 3, "offload_optimizer": True, "offload_parameters": True}
# Each name but "hpu_deepspeed", and the arguments that it stands for.
NAMES: dict[str, dict[str, Any]] = {
    "hpu_deepspeed_stage_1": {"stage": 1},
    "hpu_deepspeed_stage_2": {"stage": 2},
    "hpu_deepspeed_stage_2_offload": {"stage": 2, "offload_optimizer": True},
    "hpu_deepspeed_stage_3": {"stage": 3},
    "hpu_deepspeed_stage_3_offload": _OFFLOAD,
    "hpu_deepspeed_stage_3_offload_nvme": _OFFLOAD | _NVME,
}
# DeepSpeed's training knows sections of these names, too.
_OF_BOTH = {"checkpoint", "tensor_parallel"}


def is_available() -> bool:
    """Whether DeepSpeed is installed. Nothing imports it."""
    return importlib.util.find_spec("deepspeed") is not None


def require(strategy: str) -> None:
    """Raise MisconfigurationException where DeepSpeed is not installed."""
    if not is_available():
        raise roots.MisconfigurationException(
            f"`{strategy}` needs DeepSpeed, which is not installed: `DS_BUILD_OPS=0 pip install deepspeed` (the public "
            "one, 0.16 or newer). Without it 'hpu_fsdp' also divides weights, gradients and optimizer states among the "
            "devices."
        )


def require_hpu(strategy: str) -> None:
    """Raise MisconfigurationException if DeepSpeed uses another accelerator."""
    from deepspeed.accelerator import get_accelerator

    found = get_accelerator().device_name()
    if found != "hpu":
        raise roots.MisconfigurationException(
            f"`{strategy}`: DeepSpeed's accelerator is {found!r}, expected 'hpu': unset DS_ACCELERATOR"
        )
    os.environ["DEEPSPEED_USE_HPU"] = "true"  # scripts for Gaudi look for it


def read(config: Path | str | dict[str, Any] | None) -> dict[str, Any] | None:
    """A copy of the argument, of the file that it names, or else of that which PL_DEEPSPEED_CONFIG_PATH names.

    Raises MisconfigurationException for what is neither a dictionary nor a file with a JSON object.
    """
    if config is None:
        config = os.environ.get(CONFIG_VARIABLE)
    if config is None:
        return None
    if not isinstance(config, dict):
        try:
            config = json.loads(Path(config).read_text(encoding="utf-8"))
        except (OSError, TypeError, ValueError) as error:
            raise roots.MisconfigurationException(
                f"DeepSpeed's configuration {config}: not a JSON file: {error}"
            ) from error
        if not isinstance(config, dict):
            raise roots.MisconfigurationException(f"DeepSpeed's configuration {config}: expected a JSON object")
    if config.get("autotuning", {}).get("enabled"):
        raise roots.MisconfigurationException(
            "DeepSpeed's configuration: autotuning starts jobs of its own, with DeepSpeed's launcher, which "
            "Lightning can't; expected autotuning.enabled to be false"
        )
    # What the Trainer adds must not come back with the same dictionary in another strategy.
    return {key: dict(value) if isinstance(value, dict) else value for key, value in config.items()}


@lru_cache
def inference_names() -> frozenset[str]:
    """What `deepspeed.init_inference` takes, by each of its names."""
    from deepspeed.inference.config import DeepSpeedInferenceConfig

    fields = DeepSpeedInferenceConfig.model_fields
    return frozenset(fields) | {field.alias for field in fields.values() if field.alias}


def check_inference_arguments(strategy: str, arguments: dict[str, Any]) -> None:
    """Raise TypeError for an argument that neither the strategy nor `deepspeed.init_inference` has."""
    for name in arguments:
        if name not in inference_names():
            near = get_close_matches(name, inference_names(), 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise TypeError(
                f"{strategy}() got an unexpected argument {name!r}, which deepspeed.init_inference does not know, "
                f"either.{hint}"
            )


def inference_part(config: dict[str, Any]) -> dict[str, Any]:
    """What of the configuration is for `deepspeed.init_inference`; nothing if it is one for training."""
    tensor_parallel = config.get("tensor_parallel")
    own = {name for name in config if name in inference_names() - _OF_BOTH}
    if isinstance(tensor_parallel, dict) and "tp_size" in tensor_parallel:
        own.add("tensor_parallel")
    if own and "checkpoint" in config:
        own.add("checkpoint")
    return {name: config[name] for name in own}


def training_part(config: dict[str, Any]) -> dict[str, Any]:
    """The rest of it."""
    of_inference = inference_part(config)
    return {name: value for name, value in config.items() if name not in of_inference}


def check_batch_sizes(config: dict[str, Any], devices: int) -> None:
    """Raise MisconfigurationException for sizes that contradict each other."""
    whole, micro = config.get("train_batch_size"), config.get("train_micro_batch_size_per_gpu")
    steps = config["gradient_accumulation_steps"]
    if not (isinstance(whole, int) and isinstance(micro, int)) or whole == micro * steps * devices:
        return
    fitting, rest = divmod(whole, micro * steps)
    advice = f"use {fitting} devices, or " if fitting and not rest else ""
    raise roots.MisconfigurationException(
        f"DeepSpeed's configuration: train_batch_size is {whole}, but train_micro_batch_size_per_gpu {micro} x "
        f"Trainer(accumulate_grad_batches={steps}) x {devices} devices is {micro * steps * devices}: {advice}leave "
        "train_batch_size out"
    )


def check_optimizer(config: dict[str, Any]) -> None:
    """Raise MisconfigurationException for an optimizer's or a scheduler's section whose type nobody knows."""
    from deepspeed.runtime.config import DEEPSPEED_OPTIMIZERS
    from deepspeed.runtime.lr_schedules import VALID_LR_SCHEDULES

    for section, names, module in (
        ("optimizer", DEEPSPEED_OPTIMIZERS, torch.optim),
        ("scheduler", VALID_LR_SCHEDULES, torch.optim.lr_scheduler),
    ):
        if section not in config:
            continue
        found = config[section]
        name = found.get("type") if isinstance(found, dict) else None
        if not isinstance(name, str):
            raise roots.MisconfigurationException(
                f"DeepSpeed's configuration: {section} is {found!r}: expected an object with a type and params"
            )
        known = name in names or (section == "optimizer" and name.lower() in names)
        if not known and not isinstance(getattr(module, name, None), type):
            near = get_close_matches(name, [*names, *(each for each in dir(module) if each[0].isupper())], 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise roots.MisconfigurationException(
                f"DeepSpeed's configuration: {section}.type is {name!r}: expected one of {', '.join(sorted(names))}, "
                f"or a class of {module.__name__}.{hint}"
            )


def check_nvme(config: dict[str, Any]) -> None:
    """Raise MisconfigurationException for a folder of offloaded states that is not there; it'd fill another disk."""
    zero = config.get("zero_optimization")
    for section in ("offload_optimizer", "offload_param"):
        offload = zero.get(section) if isinstance(zero, dict) else None
        if isinstance(offload, dict) and offload.get("device") == "nvme":
            path = offload.get("nvme_path")
            if not (path and os.path.isdir(path) and os.access(path, os.W_OK)):
                raise roots.MisconfigurationException(
                    f"DeepSpeed's configuration: zero_optimization.{section} has nvme_path={str(path)!r}: expected a "
                    "folder that exists and can be written; any disk will do. HPUDeepSpeedStrategy(nvme_path=...)"
                )
