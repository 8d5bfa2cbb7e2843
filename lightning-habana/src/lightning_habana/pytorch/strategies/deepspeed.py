"""Arguments and names of DeepSpeed's strategies. Training with them is not there yet, and says so."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
from pathlib import Path
from typing import Any

from lightning_habana import roots
from lightning_habana.pytorch.strategies.ddp import HPUDDPStrategy

_CONFIG_VARIABLE = "PL_DEEPSPEED_CONFIG_PATH"
# Each name, and the arguments that it stands for.
_NAMES: dict[str, dict[str, Any]] = {
    "hpu_deepspeed": {},
    "hpu_deepspeed_stage_1": {"stage": 1},
    "hpu_deepspeed_stage_2": {"stage": 2},
    "hpu_deepspeed_stage_2_offload": {"stage": 2, "offload_optimizer": True},
    "hpu_deepspeed_stage_3": {"stage": 3},
    "hpu_deepspeed_stage_3_offload": {"stage": 3, "offload_optimizer": True, "offload_parameters": True},
    "hpu_deepspeed_stage_3_offload_nvme": {
        "stage": 3,
        "offload_optimizer": True,
        "offload_parameters": True,
        "remote_device": "nvme",
        "offload_params_device": "nvme",
        "offload_optimizer_device": "nvme",
    },
}


class HPUDeepSpeedStrategy(HPUDDPStrategy):
    """DeepSpeed on hpu; "hpu_deepspeed" and six more names.

    Checks and keeps its arguments. This version does not run DeepSpeed: `setup_environment` raises. Raises
    MisconfigurationException for a `config` that is neither a dictionary nor a JSON file.
    """

    strategy_name = "hpu_deepspeed"

    def __init__(
        self,
        accelerator: Any = None,
        zero_optimization: bool = True,
        stage: int = 2,
        remote_device: str | None = None,
        offload_optimizer: bool = False,
        offload_parameters: bool = False,
        offload_params_device: str = "cpu",
        nvme_path: str = "/local_nvme",
        params_buffer_count: int = 5,
        params_buffer_size: int = 100_000_000,
        max_in_cpu: int = 1_000_000_000,
        offload_optimizer_device: str = "cpu",
        optimizer_buffer_count: int = 4,
        block_size: int = 1048576,
        queue_depth: int = 8,
        single_submit: bool = False,
        overlap_events: bool = True,
        thread_count: int = 1,
        pin_memory: bool = False,
        sub_group_size: int = 1_000_000_000_000,
        contiguous_gradients: bool = True,
        overlap_comm: bool = True,
        allgather_partitions: bool = True,
        reduce_scatter: bool = True,
        allgather_bucket_size: int = 200_000_000,
        reduce_bucket_size: int = 200_000_000,
        zero_allow_untested_optimizer: bool = True,
        logging_batch_size_per_gpu: str | int = "auto",
        config: Path | str | dict[str, Any] | None = None,
        logging_level: int = logging.WARN,
        parallel_devices: Any = None,
        cluster_environment: Any = None,
        loss_scale: float = 0,
        initial_scale_power: int = 16,
        loss_scale_window: int = 1000,
        hysteresis: int = 2,
        min_loss_scale: int = 1,
        partition_activations: bool = False,
        cpu_checkpointing: bool = False,
        contiguous_memory_optimization: bool = False,
        synchronize_checkpoint_boundary: bool = False,
        load_full_weights: bool = False,
        precision_plugin: Any = None,
        process_group_backend: str = "hccl",
        **kwargs: Any,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__", "kwargs")}
        for name in ("accelerator", "parallel_devices", "cluster_environment", "precision_plugin"):
            del arguments[name]
        super().__init__(
            accelerator=accelerator,
            parallel_devices=parallel_devices,
            cluster_environment=cluster_environment,
            precision_plugin=precision_plugin,
            process_group_backend=process_group_backend,
        )
        if stage not in (0, 1, 2, 3):
            raise roots.MisconfigurationException(f"HPUDeepSpeedStrategy(stage={stage!r}): expected 0, 1, 2 or 3")
        self.arguments = arguments
        self.inference_arguments = kwargs
        self.config = _read(config)

    def _configure_launcher(self) -> None:
        # No process is started for what will not run.
        self._launcher = None

    def setup_environment(self) -> None:
        """Raises MisconfigurationException."""
        if importlib.util.find_spec("deepspeed") is None:
            missing = "DeepSpeed is not installed"
        else:
            missing = "DeepSpeed is installed, but this version of lightning_habana does not run it"
        raise roots.MisconfigurationException(
            f"`{type(self).__name__}` needs DeepSpeed: {missing}. Use strategy='hpu_fsdp', which also divides weights, "
            "gradients and optimizer states among the devices, or 'hpu_ddp'."
        )

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Register the seven names, unless they are."""
        for name, arguments in _NAMES.items():
            if name not in strategy_registry:
                strategy_registry.register(name, cls, description=cls.__name__, **arguments)


def _read(config: Path | str | dict[str, Any] | None) -> dict[str, Any] | None:
    """DeepSpeed's configuration: the argument's, else that of the file which PL_DEEPSPEED_CONFIG_PATH names."""
    if config is None:
        config = os.environ.get(_CONFIG_VARIABLE)
    if config is None or isinstance(config, dict):
        return config
    try:
        read = json.loads(Path(config).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise roots.MisconfigurationException(
            f"DeepSpeed's configuration {config}: not a JSON file: {error}"
        ) from error
    if not isinstance(read, dict):
        raise roots.MisconfigurationException(f"DeepSpeed's configuration {config}: expected a JSON object")
    return read
