"""Files of tensors: those of the library safetensors read them, and damage is an error."""

import pytest
import safetensors.torch
import torch

from openhpu_record.errors import RecordError
from openhpu_record.tensors import NAMES, packed, unpacked

TENSORS = {
    name: torch.arange(6).reshape(2, 3).to(getattr(torch, name)) for name in NAMES if not name.startswith("complex")
} | {"empty": torch.empty(0, 3), "number": torch.tensor(1.5), "turned": torch.arange(6.0).reshape(2, 3).t()}


def same(found):
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype is tensor.dtype and found[name].shape == tensor.shape
        assert torch.equal(found[name].double(), tensor.double())


def test_the_library_reads_what_is_written():
    same(safetensors.torch.load(packed(TENSORS)))


def test_what_the_library_writes_is_read():
    same(unpacked(safetensors.torch.save({name: one.contiguous() for name, one in TENSORS.items()}), "file"))


def test_a_file_that_was_cut_is_an_error_at_each_length():
    data = packed({"a": torch.arange(4.0), "b": torch.arange(3)})
    for length in range(len(data) - 1):
        with pytest.raises(RecordError, match="file"):
            unpacked(data[:length], "file")
