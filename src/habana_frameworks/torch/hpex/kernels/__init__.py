"""Kernels. `FusedSDPA` is a class here and a submodule of the same name: the submodule is imported first."""

import habana_frameworks.torch.hpex.kernels.FusedSDPA  # noqa: F401
from openhpu.hpex.attention import FusedSDPA, ModuleFusedSDPA, PySDPA, PySDPAHinted
from openhpu.hpex.rotary import (
    RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingHelperV3,
    RotaryPosEmbeddingMode,
    apply_rotary_pos_emb,
)

__all__ = [
    "FusedSDPA",
    "ModuleFusedSDPA",
    "PySDPA",
    "PySDPAHinted",
    "RotaryPosEmbeddingHelperV1",
    "RotaryPosEmbeddingHelperV2",
    "RotaryPosEmbeddingHelperV3",
    "RotaryPosEmbeddingMode",
    "apply_rotary_pos_emb",
]
