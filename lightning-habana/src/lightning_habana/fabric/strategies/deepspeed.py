"""DeepSpeed through Fabric."""

from typing import Any

from lightning_habana import deepspeed_config, roots
from lightning_habana.deepspeed_strategies import HPUDeepSpeedSetup
from lightning_habana.fabric.strategies.parallel import HPUParallelStrategy
from lightning_habana.strategies import HPUProcesses
from lightning_habana.strategies.deepspeed import _DEEPSPEED_AVAILABLE as _DEEPSPEED_AVAILABLE

_Lightnings: Any = roots.fabric("strategies").DeepSpeedStrategy


class HPUDeepSpeedStrategy(HPUDeepSpeedSetup, HPUProcesses, _Lightnings):  # type: ignore[misc]
    """DeepSpeed on hpu; "hpu_deepspeed" and six more names.

    Arguments are those of Lightning's DeepSpeedStrategy for Fabric, and `process_group_backend` is "hccl". `config`: a
    dictionary or a JSON file, in place of all arguments that describe training; None: the file that
    PL_DEEPSPEED_CONFIG_PATH names, else the arguments. Model and optimizer are set up together, `Fabric.setup`.

    Raises MisconfigurationException without DeepSpeed, for a `config` that is neither and for a folder of NVMe that is
    not there. Source: lightning.ai, DeepSpeedStrategy of Fabric.
    """

    _lightnings = _Lightnings
    _config_initialized: bool

    def __init__(self, *args: Any, process_group_backend: str = "hccl", **kwargs: Any) -> None:
        deepspeed_config.require(type(self).__name__)
        super().__init__(*args, process_group_backend=process_group_backend, **kwargs)

    def _setup_distributed(self) -> None:
        # Devices have no index: each process has one, its own.
        roots.fabric("utilities.seed").reset_seed()
        self._set_world_ranks()
        self._init_deepspeed_distributed()
        if not self._config_initialized:
            self._format_config()
            self._config_initialized = True

    def _create_default_config(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        config: dict[str, Any] = super()._create_default_config(*args, **kwargs)
        config["gradient_clipping"] = 0.0  # as in Trainer's; without it DeepSpeed clips at 1
        return config

    def optimizer_step(self, optimizer: Any, **kwargs: Any) -> Any:
        """The engine's step. Fabric gives its optimizer, as the engine lacks attributes of one."""
        return super().optimizer_step(self.model or optimizer, **kwargs)


# As HPUFSDPStrategy.
HPUParallelStrategy.register(HPUDeepSpeedStrategy)
