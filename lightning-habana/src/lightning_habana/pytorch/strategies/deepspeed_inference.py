"""Evaluation and prediction with DeepSpeed: through `deepspeed.init_inference`, or an engine without optimizer."""

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection

from lightning_habana import deepspeed_config, roots

_TAG = "checkpoint"  # of the folder that Lightning has DeepSpeed save into


class HPUDeepSpeedInference(roots.Mixin):
    """What HPUDeepSpeedStrategy does while nothing is trained."""

    config: dict[str, Any]
    _groups: SimpleNamespace | None = None

    def infers(self) -> bool:
        """Whether `deepspeed.init_inference` makes the engine of the current run."""
        return not self._fits() and bool(self.inference_arguments or deepspeed_config.inference_part(self.config))

    def _fits(self) -> bool:
        state = self.lightning_module.trainer.state
        return bool(state.fn == roots.pytorch("trainer.states").TrainerFn.FITTING)

    def _gathers(self) -> bool:
        """Whether weights are loaded whole, for an engine that divides them: which can't load without optimizer."""
        return bool(self.zero_stage_3) and not self._fits() and not self.infers()

    def _initialize_deepspeed_inference(self, model: Any) -> None:
        import deepspeed

        _remove_engines_hooks(model)
        if self.infers():
            _check_whole(model)
            self.model = deepspeed.init_inference(model, config=self._inference_config())
            return
        config: dict[str, Any] = {"train_micro_batch_size_per_gpu": 1}  # DeepSpeed's timers ask for it
        config |= {name: self.config[name] for name in ("fp16", "bf16") if name in self.config}
        if self.zero_stage_3:
            names = ("zero_optimization", "zero_allow_untested_optimizer")
            config |= {name: self.config[name] for name in names if name in self.config}
        self.model, *_ = deepspeed.initialize(
            args=argparse.Namespace(device_rank=self.root_device.index),
            config=config,
            model=model,
            optimizer=None,
            lr_scheduler=None,
            model_parameters=[],
            dist_init_required=False,
        )

    def _inference_config(self) -> dict[str, Any]:
        config = deepspeed_config.inference_part(self.config)
        for name, value in self.inference_arguments.items():
            if name in config and config[name] != value:
                raise roots.MisconfigurationException(
                    f"{type(self).__name__}: {name} is {value!r} as an argument and {config[name]!r} in `config`; "
                    "expected one of them"
                )
            config[name] = value
        config.setdefault("dtype", self.precision_plugin._desired_dtype)
        size = self._tensor_parallel_size()
        # DeepSpeed 0.16 parts layers by a policy in a group only, be it one of one.
        if size > 1 or "injection_policy" in config or "injection_dict" in config:
            if self._groups is None or self._groups.size != size:
                self._groups = _groups(size)
            config.pop("tp", None)
            section = config.get("tensor_parallel", {})
            config["tensor_parallel"] = {
                **(section if isinstance(section, dict) else {}),
                "tp_size": size,
                "tp_group": self._groups.get_model_parallel_group(),
                "mpu": self._groups,
            }
        return config

    def _tensor_parallel_size(self) -> int:
        given = deepspeed_config.inference_part(self.config) | self.inference_arguments
        section = given.get("tensor_parallel", given.get("tp", {}))
        size = section.get("tp_size", 1) if isinstance(section, dict) else getattr(section, "tp_size", 1)
        size = max(size, given.get("mp_size", 1))
        if self.world_size % size:
            raise roots.MisconfigurationException(
                f"{type(self).__name__}: tensor_parallel.tp_size is {size}, which does not divide the "
                f"{self.world_size} devices: expected one that does"
            )
        return int(size)

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int]:
        """Devices that share a model's layers get the same samples."""
        size = self._tensor_parallel_size() if self.infers() else 1
        return {"num_replicas": self.world_size // size, "rank": self.global_rank // size}

    def batch_to_device(self, batch: Any, device: Any = None, dataloader_idx: int = 0) -> Any:
        """Move the batch; with `deepspeed.init_inference` floats get the weights' dtype, whatever the precision."""
        batch = super().batch_to_device(batch, device, dataloader_idx)
        config = getattr(self.model, "_config", None)
        if not self.infers() or config is None:
            return batch

        def convert(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(config.dtype) if tensor.is_floating_point() else tensor

        return apply_to_collection(batch, torch.Tensor, convert)

    @property
    def restore_checkpoint_after_setup(self) -> bool:
        """Whole weights are loaded before `deepspeed.init_inference` divides them; engines load their own."""
        return not self.infers()

    def load_checkpoint(self, checkpoint_path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What a folder of DeepSpeed's holds; where nothing is trained a file serves as well."""
        if not (self.infers() or self._gathers()):
            self._check_stage(Path(checkpoint_path) / _TAG)
            return super().load_checkpoint(checkpoint_path, *args, **kwargs)  # type: ignore[no-any-return]
        if Path(checkpoint_path).is_dir():
            return _whole_checkpoint(Path(checkpoint_path))
        plain: Any = roots.pytorch("strategies").Strategy
        return plain.load_checkpoint(self, checkpoint_path, *args, **kwargs)  # type: ignore[no-any-return]

    def _check_stage(self, folder: Path) -> None:
        divided = any(folder.glob("zero_pp_rank_*_model_states.pt"))
        if folder.is_dir() and divided != self.zero_stage_3:
            saved, wanted = ("3", "0 to 2") if divided else ("0 to 2", "3")
            raise roots.MisconfigurationException(
                f"{folder.parent} was saved with ZeRO stage {saved} and can't go on with stage {wanted}: "
                "use its stage, or put its weights together with the zero_to_fp32.py that lies in it"
            )

    def load_model_state_dict(self, checkpoint: Any, strict: bool = True) -> None:
        """Load the rest that `load_checkpoint` has not loaded."""
        if self.infers():
            _check_whole(self.lightning_module)
            self.lightning_module.load_state_dict(checkpoint["state_dict"], strict=strict)
        elif self._gathers():
            self._restore_zero_state(checkpoint, strict=strict)
        else:
            super().load_model_state_dict(checkpoint, strict)


def _groups(size: int) -> SimpleNamespace:
    """The process groups of `size` neighbours each, as DeepSpeed asks a model-parallel unit for them."""
    from deepspeed import comm

    world, rank = comm.get_world_size(), comm.get_rank()
    # Every process makes every group, in the same order.
    models = [comm.new_group(list(range(first, first + size))) for first in range(0, world, size)]
    data = [comm.new_group(list(range(first, world, size))) for first in range(size)]
    return SimpleNamespace(
        size=size,
        get_model_parallel_group=lambda: models[rank // size],
        get_model_parallel_rank=lambda: rank % size,
        get_model_parallel_world_size=lambda: size,
        get_data_parallel_group=lambda: data[rank % size],
        get_data_parallel_rank=lambda: rank // size,
        get_data_parallel_world_size=lambda: world // size,
    )


def _remove_engines_hooks(model: Any) -> None:
    """Remove the traces of an earlier engine from the module. The script's own hooks stay."""
    for module in model.modules():
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            hooks = getattr(module, name)
            for key, hook in list(hooks.items()):
                function = getattr(hook, "func", hook)
                if (getattr(function, "__module__", None) or "").split(".")[0] == "deepspeed":
                    del hooks[key]


def _check_whole(model: Any) -> None:
    if any(hasattr(parameter, "ds_id") for parameter in model.parameters()):
        raise roots.MisconfigurationException(
            "deepspeed.init_inference: the module's weights are still divided among the devices, from training with "
            "ZeRO stage 3. Save a checkpoint, and pass ckpt_path= with a new module"
        )


def _whole_checkpoint(folder: Path) -> dict[str, Any]:
    """Lightning's checkpoint with whole weights, in float32 where ZeRO kept them so, from a folder of DeepSpeed's."""
    from deepspeed.utils import zero_to_fp32

    roots.fabric("strategies.deepspeed")._validate_checkpoint_directory(folder)
    inner = folder / _TAG
    divided = sorted(inner.glob("*_optim_states.pt"))
    file = sorted(inner.glob("*_model_states.pt"))[0]
    checkpoint: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=False)
    weights = checkpoint.pop("module")
    if divided:
        weights = zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(str(folder), _TAG)
    checkpoint["state_dict"] = weights
    return checkpoint
