"""One device."""

from typing import Any

from lightning_habana import roots
from lightning_habana.checkpoint_io import HPUCheckpoints
from lightning_habana.strategies import HPUSteps


class SingleHPUStrategy(HPUCheckpoints, HPUSteps, roots.fabric("strategies").SingleDeviceStrategy):  # type: ignore[misc]
    """Trains on one device; "single_hpu", or Trainer's name "hpu_single"."""

    strategy_name = "single_hpu"
    other_names = {"hpu_single": {}}  # noqa: RUF012

    def __init__(
        self, device: Any = "hpu", accelerator: Any = None, checkpoint_io: Any = None, precision: Any = None
    ) -> None:
        super().__init__(device=device, accelerator=accelerator, checkpoint_io=checkpoint_io, precision=precision)
        if self.root_device.type != "hpu":
            raise ValueError(f"SingleHPUStrategy(device={device!r}): expected an hpu device")
