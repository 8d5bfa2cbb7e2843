"""The common part of Trainer's and Fabric's DeepSpeed strategies."""

from pathlib import Path
from typing import Any

from lightning_habana import deepspeed_config, roots


class HPUDeepSpeedSetup(roots.Mixin):
    """Joins the process group on hpu, reads and checks DeepSpeed's configuration."""

    strategy_name = "hpu_deepspeed"
    other_names = deepspeed_config.NAMES
    _lightnings: Any  # Lightning's strategy, whose own setup accepts no accelerator but CUDA's

    def setup_environment(self) -> None:
        """Take the process's module and join the process group. MisconfigurationException if DeepSpeed uses no hpu."""
        self._take_module()
        deepspeed_config.require_hpu(type(self).__name__)
        with self._ends_with_its_parent():
            super(self._lightnings, self).setup_environment()

    def _load_config(self, config: Path | str | dict[str, Any] | None) -> dict[str, Any] | None:
        return deepspeed_config.read(config)

    def _create_default_config(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        config: dict[str, Any] = super()._create_default_config(*args, **kwargs)
        if kwargs["offload_optimizer"]:
            config["zero_force_ds_cpu_optimizer"] = False  # else DeepSpeed refuses PyTorch's optimizers
        return config

    def _format_config(self) -> None:
        super()._format_config()
        deepspeed_config.check_nvme(self.config)
        deepspeed_config.check_optimizer(self.config)
