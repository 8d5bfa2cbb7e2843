"""`import habana_dataloader`: Gaudi's data loader."""

from openhpu.interface.data_loader import HabanaDataLoader as HabanaDataLoader
