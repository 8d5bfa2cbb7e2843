"""The backend `hpu_backend`."""

from habana_frameworks.torch.dynamo.compile_backend import config as config, experimental as experimental
from openhpu.capture.torch_compile import hpu_backend as hpu_backend
