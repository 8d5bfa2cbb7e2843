"""Precision of HPUDeepSpeedStrategy."""

import torch

from lightning_habana import roots
from lightning_habana.precisions import HPUAutocast
from lightning_habana.pytorch.plugins.precision import HPUPrecisionPlugin

# What weights and inputs are in, mixed or true.
_DTYPES = {"bf16": torch.bfloat16, "16": torch.float16}


class HPUDeepSpeedPrecisionPlugin(
    roots.pytorch("plugins.precision").DeepSpeedPrecision,  # type: ignore[misc]
    HPUPrecisionPlugin,
):
    """What HPUDeepSpeedStrategy computes in; the backward pass, the step and clipping are DeepSpeed's.

    `precision`: "bf16-mixed" and "16-mixed": DeepSpeed's bf16 and fp16 (weights and inputs in that dtype, float32
    weights in the optimizer; fp16 with DeepSpeed's loss scaling), and steps run under torch.autocast. "bf16-true" and
    "16-true": the same without autocast, of a module converted before. "bf16": autocast alone, with weights in float32.
    "32-true", "32": nothing is cast. "fp8": transformer_engine's layers compute in it (`convert_modules`).
    Raises ValueError for others, NotImplementedError for fp8 and fp16 on a Gaudi of the first generation.
    """

    allowed = ("32", "32-true", "bf16", "bf16-mixed", "fp8", "16-mixed", "bf16-true", "16-true")

    def __init__(self, precision: str = "32-true", device: str = "hpu") -> None:
        HPUAutocast.__init__(self, precision, device)
        self.scaler = None  # DeepSpeed scales the loss
        self._desired_dtype = _DTYPES.get(precision.rpartition("-")[0], torch.float32)
