"""The functions of Gaudi's compiled module `_hpex_C`, which its lazy mode calls: operators of torch.ops.hpu."""

from typing import Any

import torch

from openhpu.interface.gaudi_ops.registry import rows
from openhpu.interface.hpex.kernels import EmbeddingBagPreproc

_OPERATORS = {row.binding: row.name for row in rows() if row.binding}

NAMES = (*_OPERATORS, "embedding_bag_preproc")


def find(name: str) -> Any:
    """The value of `_hpex_C.name`. Raises AttributeError for another name, with an alternative."""
    if name == "embedding_bag_preproc":
        return EmbeddingBagPreproc
    if name in _OPERATORS:
        return getattr(torch.ops.hpu, _OPERATORS[name])
    hints = {
        "roi_align_forward": "; use torchvision.ops.roi_align",
        "roi_align_backward": "; use torchvision.ops.roi_align, which has a gradient",
        "matmul_ex": "; use torch.matmul",
        "matmul_ex_backward": "; use torch.matmul, which has a gradient",
    }
    raise AttributeError(f"module '_hpex_C' has no attribute {name!r}{hints.get(name, '')}")
