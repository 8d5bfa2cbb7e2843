"""The backend `hpu_backend`."""

from habana_frameworks.torch.dynamo.compile_backend import config, experimental
from openhpu.dynamo import hpu_backend

__all__ = ["config", "experimental", "hpu_backend"]
