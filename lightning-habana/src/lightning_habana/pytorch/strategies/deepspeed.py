"""DeepSpeed through Trainer: ZeRO, offload, activation checkpointing; and its inference (`deepspeed_inference`)."""

import inspect
import warnings
from typing import Any

from lightning_habana import deepspeed_config, roots
from lightning_habana.deepspeed_strategies import HPUDeepSpeedSetup
from lightning_habana.pytorch.plugins.deepspeed_precision import HPUDeepSpeedPrecisionPlugin
from lightning_habana.pytorch.strategies.ddp import HPUDDPStrategy
from lightning_habana.pytorch.strategies.deepspeed_inference import HPUDeepSpeedInference
from lightning_habana.strategies.deepspeed import _DEEPSPEED_AVAILABLE as _DEEPSPEED_AVAILABLE

_optimizers: Any = roots.pytorch("core.optimizer")
_Lightnings: Any = roots.pytorch("strategies").DeepSpeedStrategy


class HPUDeepSpeedStrategy(HPUDeepSpeedSetup, HPUDeepSpeedInference, HPUDDPStrategy, _Lightnings):  # type: ignore[misc]
    """DeepSpeed on hpu; "hpu_deepspeed" and six more names.

    Arguments are those of Lightning's DeepSpeedStrategy, and `process_group_backend` is "hccl"; all others are those of
    `deepspeed.init_inference`. `config`: a dictionary or a JSON file, in place of all arguments that describe training;
    None: the file that PL_DEEPSPEED_CONFIG_PATH names, else the arguments.

    Optimizer and scheduler are those of `LightningModule.configure_optimizers`; where it returns none, `config`'s.
    Whatever is no training, uses `deepspeed.init_inference` if an argument or `config` says something to it.

    Raises MisconfigurationException without DeepSpeed, for a `config` that is neither, for a `stage` that is none and
    for contradictory sizes; TypeError for an argument that nobody knows. Source: lightning.ai, DeepSpeedStrategy.
    """

    _lightnings = _Lightnings

    def __init__(self, *args: Any, process_group_backend: str = "hccl", **kwargs: Any) -> None:
        name = type(self).__name__
        known = inspect.signature(_Lightnings.__init__)
        inference = {key: value for key, value in kwargs.items() if key not in known.parameters}
        for key in inference:
            del kwargs[key]
        stage = known.bind(self, *args, **kwargs).arguments.get("stage", 2)
        if stage not in (0, 1, 2, 3):
            raise roots.MisconfigurationException(f"{name}(stage={stage!r}): expected 0, 1, 2 or 3")
        deepspeed_config.require(name)
        deepspeed_config.check_inference_arguments(name, inference)
        self.inference_arguments = inference
        super().__init__(*args, process_group_backend=process_group_backend, **kwargs)

    @property
    def precision_plugin(self) -> Any:
        """An HPUDeepSpeedPrecisionPlugin, or Lightning's own."""
        return self._precision_plugin or HPUDeepSpeedPrecisionPlugin("32-true")

    @precision_plugin.setter
    def precision_plugin(self, plugin: Any) -> None:
        if plugin is not None and not isinstance(plugin, roots.pytorch("plugins.precision").DeepSpeedPrecision):
            raise TypeError(
                "The DeepSpeed strategy can only work with `HPUDeepSpeedPrecisionPlugin` or Lightning's "
                f"`DeepSpeedPrecision`, found {plugin}. Or leave it out: Trainer(precision='bf16-mixed') does."
            )
        self._precision_plugin = plugin

    def setup_distributed(self) -> None:
        """Join the process group. Devices have no index: each process has one, its own."""
        roots.fabric("utilities.seed").reset_seed()
        self.set_world_ranks()
        self._init_deepspeed_distributed()

    def _format_batch_size_and_grad_accum_config(self) -> None:
        super()._format_batch_size_and_grad_accum_config()
        if "gradient_accumulation_steps" in self.config:
            deepspeed_config.check_batch_sizes(self.config, self.world_size)

    def _initialize_deepspeed_train(self, model: Any) -> None:
        """Train with the module's optimizer and scheduler; with `config`'s, where it has none."""
        whole = self.config
        config = deepspeed_config.training_part(whole)
        optimizer, scheduler = self._made = self._optimizer_of_module("optimizer" in config)
        if optimizer is not None:
            config.pop("optimizer", None)
            if scheduler is not None:
                config.pop("scheduler", None)
        self.config = config
        try:
            super()._initialize_deepspeed_train(model)
        finally:
            self.config = whole
            self._made = None

    _made: Any = None

    def _init_optimizers(self) -> Any:
        return self._made or super()._init_optimizers()

    def _optimizer_of_module(self, another: bool) -> tuple[Any, Any]:
        """The module's optimizer and scheduler, or None twice where there is `another` optimizer."""
        with warnings.catch_warnings():
            if another:
                warnings.filterwarnings("ignore", message=".*configure_optimizers.*returned.*None")
            optimizer, scheduler = super()._init_optimizers()
        if not isinstance(optimizer, _optimizers._MockOptimizer):
            return optimizer, scheduler
        if not another:
            raise roots.MisconfigurationException(
                "DeepSpeed trains with one optimizer, and there is none: return it from "
                "LightningModule.configure_optimizers, or add an 'optimizer' section to DeepSpeed's configuration"
            )
        return None, None

    def _set_deepspeed_activation_checkpointing(self) -> None:
        import deepspeed

        section = self.config.get("activation_checkpointing")
        if section:
            deepspeed.checkpointing.configure(
                mpu_=None,
                partition_activations=section.get("partition_activations"),
                contiguous_checkpointing=section.get("contiguous_memory_optimization"),
                num_checkpoints=section.get("number_checkpoints"),
                checkpoint_in_cpu=section.get("cpu_checkpointing"),
                synchronize=section.get("synchronize_checkpoint_boundary"),
                profile=section.get("profile"),
            )
