"""`import habana_dataloader`: Gaudi's data loader."""

from openhpu.data_loader import HabanaDataLoader

__all__ = ["HabanaDataLoader"]
