"""The common part of Trainer's and Fabric's DeepSpeed strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning_habana import deepspeed_config


class HPUDeepSpeedSetup:
    """Joins the process group on hpu, reads and checks DeepSpeed's configuration, registers the names."""

    strategy_name = "hpu_deepspeed"
    _lightnings: Any  # Lightning's strategy, whose own setup accepts no accelerator but CUDA's

    def setup_environment(self) -> None:
        """Take the process's module and join the process group. MisconfigurationException if DeepSpeed uses no hpu."""
        this: Any = self
        this._take_module()
        deepspeed_config.require_hpu(type(self).__name__)
        with this._ends_with_its_parent():
            super(self._lightnings, this).setup_environment()  # type: ignore[misc]

    def _load_config(self, config: Path | str | dict[str, Any] | None) -> dict[str, Any] | None:
        return deepspeed_config.read(config)

    def _create_default_config(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        config: dict[str, Any] = super()._create_default_config(*args, **kwargs)  # type: ignore[misc]
        if kwargs["offload_optimizer"]:
            config["zero_force_ds_cpu_optimizer"] = False  # else DeepSpeed refuses PyTorch's optimizers
        return config

    def _format_config(self) -> None:
        super()._format_config()  # type: ignore[misc]
        this: Any = self
        deepspeed_config.check_nvme(this.config)
        deepspeed_config.check_optimizer(this.config)

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Register the seven names, unless they are."""
        for name, arguments in deepspeed_config.NAMES.items():
            if name not in strategy_registry:
                strategy_registry.register(name, cls, description=cls.__name__, **arguments)
