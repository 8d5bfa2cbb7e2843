"""Gaudi's data loader."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import habana_dataloader


def test_it_is_pytorchs():
    data = TensorDataset(torch.arange(10))
    loader = habana_dataloader.HabanaDataLoader(data, batch_size=4, num_workers=0, pin_memory=True, drop_last=True)
    assert isinstance(loader, DataLoader)
    assert [batch.tolist() for (batch,) in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert all(batch.is_pinned() for (batch,) in loader)


def test_without_fallback(monkeypatch):
    monkeypatch.setenv("DATALOADER_FALLBACK_EN", "0")
    with pytest.raises(RuntimeError, match="DATALOADER_FALLBACK_EN=0 forbids PyTorch's data loader"):
        habana_dataloader.HabanaDataLoader([1])
