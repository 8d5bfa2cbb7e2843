"""The patches of DeepSpeed, a library that knows hpu by itself, each with its reason. They wait for its import.

- `HPU_Accelerator._lazy_init_class_dict`: the accelerator's folder of operators has no asynchronous input and output,
  which NVMe needs, and no native pinned memory. Both concern host memory, so DeepSpeed's builders for CPUs serve. The
  first builder gets an error message for a missing library. It also passes CFLAGS and LDFLAGS on, which DeepSpeed uses
  only for its test. It reads and writes pinned memory past the system's cache, which needs aligned addresses, but looks
  only at sizes. With an unaligned address it silently left the old contents. Here such memory counts as not pinned, and
  DeepSpeed uses buffers for it.
- `HPU_Accelerator.resolves_data_dependency`, `HPU_Accelerator.Stream`: DeepSpeed lets no stream of hpu wait for
  another, nor the host for a copy, because Gaudi's software orders accesses to shared memory. Streams here are queues,
  like CUDA's, and wait only when they are told to. So DeepSpeed is told to wait. It also works on the default stream,
  since it forgets some waits on CUDA as well.
- `HPUFusedAdam.multi_tensor_adam`: Adam with `adam_w_mode` off must add the weights to the gradients. On hpu they were
  silently dropped. Epsilon must be added to the corrected second moment, as on other devices. On hpu it was added
  before the correction, which makes it 31 times as large in the first step.
- `InferenceEngine`: with tensor parallelism DeepSpeed refuses `enable_cuda_graph`, which means nothing on hpu. Gaudi's
  own DeepSpeed takes it, and optimum-habana passes it where it wraps the module in HPU graphs. Here it is dropped.
"""

import contextlib
import functools
import importlib
import math
import os
import shlex
from types import SimpleNamespace
from typing import Any

import torch

from openhpu.integration.late_imports import after_import

_LIBAIO = (
    "DeepSpeed's offload to NVMe needs libaio, and a program that calls it could not be compiled. Install its header "
    "and library (Debian: apt-get install libaio-dev), or name their folders: CFLAGS=-I..., LDFLAGS=-L... ."
)

_ALIGNMENT = 1024  # bytes, of DeepSpeed's own buffers; what a disk asks for is less or the same


def install() -> None:
    """Have DeepSpeed patched when it is imported. Imports nothing of it."""
    after_import("deepspeed.accelerator.hpu_accelerator", _operators_of_hosts_and_waits)
    after_import("deepspeed.ops.op_builder.hpu.fused_adam", _adam_as_elsewhere)
    after_import("deepspeed.inference.engine", _no_cuda_graphs)


def _no_cuda_graphs() -> None:
    engine: Any = importlib.import_module("deepspeed.inference.engine").InferenceEngine
    begin = engine.__init__

    @functools.wraps(begin)
    def __init__(self: Any, model: Any, config: Any) -> None:
        accelerator = importlib.import_module("deepspeed.accelerator").get_accelerator()
        if accelerator.device_name() == "hpu" and config.tensor_parallel.tp_size > 1:
            config.enable_cuda_graph = False
        begin(self, model, config)

    engine.__init__ = __init__


def _operators_of_hosts_and_waits() -> None:
    accelerator: Any = importlib.import_module("deepspeed.accelerator.hpu_accelerator").HPU_Accelerator
    find = accelerator._lazy_init_class_dict

    def _lazy_init_class_dict(self: Any) -> None:
        find(self)
        if "AsyncIOBuilder" not in self.class_dict:
            self.class_dict["AsyncIOBuilder"] = _async_io_builder()
        with contextlib.suppress(ModuleNotFoundError):  # older ones have none
            pinned = importlib.import_module("deepspeed.ops.op_builder.cpu.pin_memory").PinMemoryBuilder
            self.class_dict.setdefault("PinMemoryBuilder", pinned)

    accelerator._lazy_init_class_dict = _lazy_init_class_dict
    accelerator.resolves_data_dependency = lambda self: False
    accelerator.Stream = property(lambda self: _default_stream)


def _default_stream(device: Any = None, priority: int = 0) -> Any:
    return torch.get_device_module("hpu").default_stream(device)


def _async_io_builder() -> Any:
    base: Any = importlib.import_module("deepspeed.ops.op_builder.cpu.async_io").AsyncIOBuilder

    class AsyncIOBuilder(base):  # type: ignore[misc]
        """Compiles DeepSpeed's asynchronous input and output of host memory, over libaio."""

        def cxx_args(self) -> list[str]:
            return [*super().cxx_args(), *shlex.split(os.environ.get("CFLAGS", ""))]

        def extra_ldflags(self) -> list[str]:
            return [*shlex.split(os.environ.get("LDFLAGS", "")), *super().extra_ldflags()]

        def load(self, verbose: bool = False) -> Any:
            """The compiled module. RuntimeError where libaio is missing, before anything is compiled."""
            if not self.has_function("io_submit", ("aio",)):
                raise RuntimeError(_LIBAIO)
            module = super().load(verbose)
            return SimpleNamespace(**{**vars(module), "aio_handle": _handle_of_aligned_memory(module.aio_handle)})

    return AsyncIOBuilder


@functools.cache
def _handle_of_aligned_memory(base: Any) -> Any:
    class aio_handle(base):  # type: ignore[misc]
        """Reads and writes files past the system's cache."""

        def is_pinned(self, buffer: torch.Tensor) -> bool:
            """Whether it can do so with this memory itself."""
            return bool(super().is_pinned(buffer)) and buffer.data_ptr() % _ALIGNMENT == 0

    return aio_handle


def _adam_as_elsewhere() -> None:
    operators: Any = importlib.import_module("deepspeed.ops.op_builder.hpu.fused_adam").HPUFusedAdam
    original = operators.multi_tensor_adam

    def multi_tensor_adam(
        chunk_size: Any,
        noop: Any,
        lists: Any,
        lr: float,
        beta1: float,
        beta2: float,
        epsilon: float,
        step: int,
        adam_w_mode: int,
        bias_correction: int,
        weight_decay: float,
        *rest: Any,
    ) -> None:
        if weight_decay and not adam_w_mode:
            lists = [torch._foreach_add(lists[0], lists[1], alpha=weight_decay), *lists[1:]]
        if bias_correction:
            epsilon *= math.sqrt(1 - beta2**step)
        original(
            chunk_size, noop, lists, lr, beta1, beta2, epsilon, step, adam_w_mode, bias_correction, weight_decay, *rest
        )

    operators.multi_tensor_adam = staticmethod(multi_tensor_adam)
