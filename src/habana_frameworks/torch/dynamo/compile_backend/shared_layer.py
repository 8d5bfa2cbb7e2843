"""Which operators of a graph of torch.compile run eagerly."""

from openhpu.capture.torch_compile.kept_eager import operators as hpu_fallback_op_list

__all__ = ["hpu_fallback_op_list"]
