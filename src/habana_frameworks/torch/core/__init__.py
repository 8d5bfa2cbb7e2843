"""`import habana_frameworks.torch.core as htcore`."""

from openhpu import hpu as hpu
