"""Which PyTorch this is, by the name that Neural Compressor's tests import."""

import re

import torch


def is_pytorch_at_least(version: str) -> bool:
    """Whether PyTorch is of `version` or newer. Raises ValueError for anything but numbers with dots between them."""
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise ValueError(f"is_pytorch_at_least: version is {version!r}; expected one like '2.13.0'")
    return bool(torch.__version__ >= version)
