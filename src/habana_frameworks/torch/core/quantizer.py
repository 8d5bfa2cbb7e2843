"""Quantisation of exported models (pt2e). It needs the package torchao."""

import importlib.util

from openhpu.interface.names import refused

if importlib.util.find_spec("torchao") is None:
    raise refused(
        __name__,
        "it quantises by torchao's pt2e, since PyTorch 2.13 and newer have no torch.ao.quantization.quantize_pt2e, and "
        "torchao is not installed; install it, or quantise with Neural Compressor's fp8 "
        "(neural_compressor.torch.quantization.FP8Config)",
    )

from openhpu.interface.pt2e import (
    habana_quant_config_symmetric as habana_quant_config_symmetric,
    habana_quantizer as habana_quantizer,
)
