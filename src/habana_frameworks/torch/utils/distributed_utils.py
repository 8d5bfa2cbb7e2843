"""An older place of `initialize_distributed_hpu`."""

from openhpu.integration.distributed import initialize_distributed_hpu as initialize_distributed_hpu
