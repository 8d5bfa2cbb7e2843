"""What may change."""

from openhpu.dynamo.backend import enable_compiled_autograd

__all__ = ["enable_compiled_autograd"]
