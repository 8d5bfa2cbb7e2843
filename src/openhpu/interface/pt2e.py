"""The quantiser of exported models (pt2e): what of a graph is quantised, and by which numbers.

PyTorch 2.13 and newer have pt2e in the package torchao (`torchao.quantization.pt2e.quantize_pt2e`, `prepare_pt2e` and
`convert_pt2e`), whose `Quantizer` this is. Its quantisations are PyTorch's operators `quantized_decomposed`, which
interface/gaudi_ops/affine.py computes on the device.
"""

from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from openhpu.interface.gaudi_ops import fp8

_aten = torch.ops.aten
# Products, each with the number of its first arguments that are factors. A bias is not quantised.
_FACTORS = {
    _aten.linear.default: 2,
    _aten.matmul.default: 2,
    _aten.mm.default: 2,
    _aten.bmm.default: 2,
    _aten.conv1d.default: 2,
    _aten.conv2d.default: 2,
    _aten.conv3d.default: 2,
}


class QuantConfig(NamedTuple):
    """How each factor is quantised: `dtype`, with whole numbers or fp8 numbers between -`largest` and `largest`."""

    dtype: torch.dtype
    largest: int

    def spec(self) -> QuantizationSpec:
        """The same for torchao: a scale for the whole tensor, max |x| / `largest`, and 0 as zero point."""
        return QuantizationSpec(
            dtype=self.dtype,
            observer_or_fake_quant_ctr=MinMaxObserver,
            quant_min=-self.largest,
            quant_max=self.largest,
            qscheme=torch.per_tensor_symmetric,
        )


def habana_quant_config_symmetric(qdtype: torch.dtype) -> QuantConfig:
    """The configuration for `qdtype`: torch.int8, torch.float8_e4m3fn or torch.float8_e5m2.

    Raises ValueError for others, and RuntimeError for fp8 on the first Gaudi.
    """
    if qdtype is torch.int8:
        return QuantConfig(qdtype, 127)
    if not fp8.is_fp8(qdtype):
        raise ValueError(
            f"habana_quant_config_symmetric: qdtype: {qdtype}, expected int8, float8_e4m3fn or float8_e5m2"
        )
    return QuantConfig(qdtype, int(fp8.largest(qdtype)))


class habana_quantizer(Quantizer):  # Gaudi's name
    """Quantises both factors of each matrix product and convolution of an exported model."""

    def __init__(self) -> None:
        super().__init__()
        self._config: QuantConfig | None = None

    def set_global(self, config: QuantConfig) -> "habana_quantizer":
        """Quantise all products by `config`, of `habana_quant_config_symmetric`; return this quantiser.

        Raises TypeError for another object.
        """
        if not isinstance(config, QuantConfig):
            raise TypeError(
                f"habana_quantizer.set_global: config: {type(config).__name__}, expected what "
                "habana_quant_config_symmetric returns"
            )
        self._config = config
        return self

    def annotate(self, model: GraphModule) -> GraphModule:
        """Mark what is quantised, for prepare_pt2e. Raises RuntimeError without `set_global`."""
        if self._config is None:
            raise RuntimeError(
                "habana_quantizer has no configuration: call set_global(habana_quant_config_symmetric(qdtype)) before "
                "prepare_pt2e"
            )
        spec = self._config.spec()
        for node in model.graph.nodes:
            factors = node.args[: _FACTORS.get(node.target, 0)]
            inputs: dict[Any, Any] = {factor: spec for factor in factors if _is_floating(factor)}
            if inputs:
                node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(input_qspec_map=inputs, _annotated=True)
        return model

    def validate(self, model: GraphModule) -> None:
        """Every graph that was annotated is valid."""


def _is_floating(factor: object) -> bool:
    value = factor.meta.get("val") if isinstance(factor, Node) else None
    return isinstance(value, torch.Tensor) and value.is_floating_point()
