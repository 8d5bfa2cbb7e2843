"""Data modules of Trainer."""

from lightning_habana.pytorch.datamodule.datamodule import HPUDataModule

__all__ = ["HPUDataModule"]
