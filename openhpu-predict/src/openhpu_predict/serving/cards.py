"""Cards: tensor parallelism in one process, which is the first rank of a group that has no other process.

vLLM's executor for an external launcher has one worker, in the engine's process. All process groups are PyTorch's fake
one (`processes.ranks`). A collective outside of the border changes nothing. One within it has a price.
"""

import atexit
import contextlib
import math
from typing import Any

from openhpu_predict.devices import Device
from openhpu_predict.errors import PredictError
from openhpu_predict.processes import ranks

_LAUNCHED = "external_launcher"  # vLLM's name of the executor


class Cards:
    """The part of the border that makes several cards of one process. `count`: cards of the engine."""

    def __init__(self, device: Device) -> None:
        self.count = 1
        self._device = device
        self._group = contextlib.ExitStack()

    def begin(self, count: int) -> None:
        """From now on torch.distributed has `count` ranks. Raises PredictError for a number that no nodes have, or
        without links."""
        if count > 1:
            self._device.require_links()
        node = int(self._device.node_cards)
        if count > node and count % node:
            raise PredictError(
                f"--tensor-parallel-size is {count}; expected 1 to {node} cards of a node, or whole nodes of {node}"
            )
        if count > 1 and self.count == 1:
            self._group.enter_context(ranks(count))
            atexit.register(self._group.close)
            self.count = count

    # The functions that the table of hooks names. Each takes the original, and returns what takes its place.

    def engine_config(self, original: Any) -> Any:
        """vLLM makes its configuration of the options that it was given."""

        def create_engine_config(arguments: Any, *args: Any, **kwargs: Any) -> Any:
            size = arguments.tensor_parallel_size
            if size > 1 and arguments.pipeline_parallel_size == arguments.data_parallel_size == 1:
                self.begin(size)
                if arguments.distributed_executor_backend is None:
                    arguments.distributed_executor_backend = _LAUNCHED
            return original(arguments, *args, **kwargs)

        return create_engine_config

    def node_count(self, original: Any) -> Any:
        """How many nodes a group has."""

        def node_count(group: Any) -> int:
            if self.count == 1:
                return int(original(group))
            return math.ceil(self.count / self._device.node_cards)

        return node_count

    def broadcaster(self, original: Any) -> Any:
        """A queue in shared memory, from which the other ranks of a group would read."""

        def create_from_process_group(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs) if self.count == 1 else None

        return create_from_process_group

    def environment(self, original: Any) -> Any:
        """The worker joins its groups. The plugin's function also checks a sum over the ranks, and nobody sums."""

        def init_worker_distributed_environment(
            vllm_config: Any, rank: int, distributed_init_method: str | None = None, local_rank: int = -1
        ) -> None:
            if self.count == 1:
                original(vllm_config, rank, distributed_init_method, local_rank)
                return
            from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment

            parallel = vllm_config.parallel_config
            init_distributed_environment(parallel.world_size, rank, distributed_init_method, local_rank, backend="hccl")
            ensure_model_parallel_initialized(parallel.tensor_parallel_size, parallel.pipeline_parallel_size)

        return init_worker_distributed_environment
