"""Quantisation of exported models (pt2e), which is not built."""

from openhpu.interface.names import refused

raise refused(
    __name__,
    "it quantises by torch.ao.quantization.quantize_pt2e, which PyTorch 2.13 and newer do not have; quantise with "
    "Neural Compressor's fp8 (neural_compressor.torch.quantization.FP8Config), which runs on hpu",
)
