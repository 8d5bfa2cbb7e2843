"""Kernels. `FusedSDPA` is a class here and a submodule of the same name: the submodule is imported first."""

import habana_frameworks.torch.hpex.kernels.Fp8FusedSDPA
import habana_frameworks.torch.hpex.kernels.FusedSDPA  # noqa: F401
from habana_frameworks.torch.hpex.kernels import Softmax as Softmax, fbgemm as fbgemm
from openhpu.interface.hpex.attention import (
    FusedSDPA as FusedSDPA,
    ModuleFusedSDPA as ModuleFusedSDPA,
    PySDPA as PySDPA,
    PySDPAHinted as PySDPAHinted,
)
from openhpu.interface.hpex.kernels import (
    CTCLoss as CTCLoss,
    CustomSoftmax as CustomSoftmax,
    EmbeddingBag as EmbeddingBag,
    EmbeddingBagPreproc as EmbeddingBagPreproc,
    RaggedSoftmax as RaggedSoftmax,
    RandomSeed as RandomSeed,
    fp8_fused_sdpa as fp8_fused_sdpa,
    triu_masked_softmax as triu_masked_softmax,
)
from openhpu.interface.hpex.rotary import (
    RotaryPosEmbeddingHelperV1 as RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2 as RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingHelperV3 as RotaryPosEmbeddingHelperV3,
    RotaryPosEmbeddingMode as RotaryPosEmbeddingMode,
    apply_rotary_pos_emb as apply_rotary_pos_emb,
)
