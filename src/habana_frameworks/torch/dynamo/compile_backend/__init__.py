"""The backend `hpu_backend`."""

from habana_frameworks.torch.dynamo.compile_backend import config, experimental
from openhpu.capture.torch_compile import hpu_backend

__all__ = ["config", "experimental", "hpu_backend"]
