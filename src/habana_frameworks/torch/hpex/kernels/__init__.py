"""Kernels. `FusedSDPA` is a class here and a submodule of the same name: the submodule is imported first."""

import habana_frameworks.torch.hpex.kernels.Fp8FusedSDPA
import habana_frameworks.torch.hpex.kernels.FusedSDPA  # noqa: F401
from habana_frameworks.torch.hpex.kernels import Softmax, fbgemm
from openhpu.interface.hpex.attention import FusedSDPA, ModuleFusedSDPA, PySDPA, PySDPAHinted
from openhpu.interface.hpex.kernels import (
    CTCLoss,
    CustomSoftmax,
    EmbeddingBag,
    EmbeddingBagPreproc,
    RaggedSoftmax,
    RandomSeed,
    fp8_fused_sdpa,
    triu_masked_softmax,
)
from openhpu.interface.hpex.rotary import (
    RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingHelperV3,
    RotaryPosEmbeddingMode,
    apply_rotary_pos_emb,
)

__all__ = [
    "CTCLoss",
    "CustomSoftmax",
    "EmbeddingBag",
    "EmbeddingBagPreproc",
    "FusedSDPA",
    "ModuleFusedSDPA",
    "PySDPA",
    "PySDPAHinted",
    "RaggedSoftmax",
    "RandomSeed",
    "RotaryPosEmbeddingHelperV1",
    "RotaryPosEmbeddingHelperV2",
    "RotaryPosEmbeddingHelperV3",
    "RotaryPosEmbeddingMode",
    "Softmax",
    "apply_rotary_pos_emb",
    "fbgemm",
    "fp8_fused_sdpa",
    "triu_masked_softmax",
]
