"""`torch.matmul(a, b, out=c)` into a wider dtype than the operands', which a Gaudi has and PyTorch's other devices not.

vLLM's plugin gives attention's scores of bfloat16 operands a result in float32 so.
"""

from __future__ import annotations

import torch

_library: torch.library.Library | None = None


def install() -> None:
    """Register it at the device's key; once."""
    global _library
    if _library is None:
        _library = torch.library.Library("aten", "IMPL")
        _library.impl("matmul.out", _matmul_out, "HPU")


def _matmul_out(self: torch.Tensor, other: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    wider = self.dtype is other.dtype and self.dtype in (torch.bfloat16, torch.float16) and out.dtype is torch.float32
    if wider:
        self, other = self.float(), other.float()
    return torch.ops.aten.matmul.out.decompose(self, other, out=out)  # type: ignore[no-any-return]
