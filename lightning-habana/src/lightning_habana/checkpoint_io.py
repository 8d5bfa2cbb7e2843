"""Checkpoints as files that load on any device, for Trainer and Fabric."""

from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection

from lightning_habana import roots


class HPUCheckpointIO(roots.fabric("plugins").TorchCheckpointIO):  # type: ignore[misc]
    """Lightning's TorchCheckpointIO, with every tensor on the CPU in the file. An interrupted save leaves no file."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Save the checkpoint at `path`, at once or not at all. Raises TypeError for `storage_options`."""
        on_cpu = apply_to_collection(checkpoint, torch.Tensor, torch.Tensor.cpu)
        super().save_checkpoint(on_cpu, path, storage_options)


class HPUCheckpoints(roots.Mixin):
    """A strategy whose `checkpoint_io` is HPUCheckpointIO, or wraps one; any other that was given stays."""

    _checkpoint_io: Any

    @property
    def checkpoint_io(self) -> Any:
        """What writes and reads checkpoints."""
        if self._checkpoint_io is None:
            self._checkpoint_io = HPUCheckpointIO()
        elif getattr(self._checkpoint_io, "checkpoint_io", self) is None:  # one that wraps another
            self._checkpoint_io.checkpoint_io = HPUCheckpointIO()
        return self._checkpoint_io

    @checkpoint_io.setter
    def checkpoint_io(self, io: Any) -> None:
        self._checkpoint_io = io
