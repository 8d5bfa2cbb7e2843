"""Names that may change."""

from openhpu.capture.torch_compile.backend import enable_compiled_autograd as enable_compiled_autograd
