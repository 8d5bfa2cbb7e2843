"""Which CheckpointIO Trainer's strategies write with."""

from __future__ import annotations

from typing import Any

from lightning_habana import roots
from lightning_habana.checkpoint_io import HPUCheckpointIO

_Wrapping: Any = roots.pytorch("plugins.io.wrapper")._WrappingCheckpointIO


class HPUCheckpoints:
    """`checkpoint_io` is HPUCheckpointIO, or wraps one; any other that was given stays."""

    _checkpoint_io: Any

    @property
    def checkpoint_io(self) -> Any:
        """What writes and reads checkpoints."""
        if self._checkpoint_io is None:
            self._checkpoint_io = HPUCheckpointIO()
        elif isinstance(self._checkpoint_io, _Wrapping) and self._checkpoint_io.checkpoint_io is None:
            self._checkpoint_io.checkpoint_io = HPUCheckpointIO()
        return self._checkpoint_io

    @checkpoint_io.setter
    def checkpoint_io(self, io: Any) -> None:
        self._checkpoint_io = io
