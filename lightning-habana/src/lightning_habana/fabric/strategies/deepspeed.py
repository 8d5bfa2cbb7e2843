"""DeepSpeed through Fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning_habana import deepspeed_config, roots
from lightning_habana.fabric.strategies.parallel import HPUParallelStrategy
from lightning_habana.strategies import HPUProcesses

_Lightnings: Any = roots.fabric("strategies").DeepSpeedStrategy


class HPUDeepSpeedStrategy(HPUProcesses, _Lightnings):  # type: ignore[misc]
    """DeepSpeed on hpu; "hpu_deepspeed" and six more names.

    Arguments are those of Lightning's DeepSpeedStrategy for Fabric, and `process_group_backend` is "hccl". `config`: a
    dictionary or a JSON file, in place of all arguments that describe training; None: the file that
    PL_DEEPSPEED_CONFIG_PATH names, else the arguments. Model and optimizer are set up together, `Fabric.setup`.

    Raises MisconfigurationException without DeepSpeed, for a `config` that is neither and for a folder of NVMe that is
    not there. Source: lightning.ai, DeepSpeedStrategy of Fabric.
    """

    strategy_name = "hpu_deepspeed"
    _config_initialized: bool

    def __init__(self, *args: Any, process_group_backend: str = "hccl", **kwargs: Any) -> None:
        deepspeed_config.require(type(self).__name__)
        super().__init__(*args, process_group_backend=process_group_backend, **kwargs)

    def setup_environment(self) -> None:
        """Take the process's module and join the process group. MisconfigurationException if DeepSpeed uses no hpu."""
        self._take_module()
        deepspeed_config.require_hpu(type(self).__name__)
        with self._ends_with_its_parent():
            super(_Lightnings, self).setup_environment()  # Lightning's own accepts no accelerator but CUDA's

    def _setup_distributed(self) -> None:
        # Devices have no index: each process has one, its own.
        roots.fabric("utilities.seed").reset_seed()
        self._set_world_ranks()
        self._init_deepspeed_distributed()
        if not self._config_initialized:
            self._format_config()
            self._config_initialized = True

    def _load_config(self, config: Path | str | dict[str, Any] | None) -> dict[str, Any] | None:
        return deepspeed_config.read(config)

    def _create_default_config(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        config: dict[str, Any] = super()._create_default_config(*args, **kwargs)
        config["gradient_clipping"] = 0.0  # as in Trainer's; without it DeepSpeed clips at 1
        if kwargs["offload_optimizer"]:
            config["zero_force_ds_cpu_optimizer"] = False  # else DeepSpeed refuses PyTorch's optimizers
        return config

    def _format_config(self) -> None:
        super()._format_config()
        deepspeed_config.check_nvme(self.config)
        deepspeed_config.check_optimizer(self.config)

    def optimizer_step(self, optimizer: Any, **kwargs: Any) -> Any:
        """The engine's step. Fabric gives its optimizer, as the engine lacks attributes of one."""
        return super().optimizer_step(self.model or optimizer, **kwargs)

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Register the seven names, unless they are."""
        for name, arguments in deepspeed_config.NAMES.items():
            if name not in strategy_registry:
                strategy_registry.register(name, cls, description=cls.__name__, **arguments)


# As HPUFSDPStrategy.
HPUParallelStrategy.register(HPUDeepSpeedStrategy)
