"""One device."""

from typing import Any

from lightning_habana import roots
from lightning_habana.checkpoint_io import HPUCheckpoints
from lightning_habana.pytorch.strategies.evaluation import HPUEvaluation
from lightning_habana.strategies import HPUSteps

_Base: Any = roots.pytorch("strategies").SingleDeviceStrategy


class SingleHPUStrategy(HPUSteps, HPUEvaluation, HPUCheckpoints, _Base):  # type: ignore[misc]
    """Trains on one device; "hpu_single". `device`: "hpu" or one with an index."""

    strategy_name = "hpu_single"

    def __init__(
        self, device: Any = "hpu", accelerator: Any = None, checkpoint_io: Any = None, precision_plugin: Any = None
    ) -> None:
        super().__init__(
            device=device, accelerator=accelerator, checkpoint_io=checkpoint_io, precision_plugin=precision_plugin
        )
        if self.root_device.type != "hpu":
            raise roots.MisconfigurationException(f"SingleHPUStrategy(device={device!r}): expected an hpu device")

    @property
    def is_distributed(self) -> bool:
        """False."""
        return False
