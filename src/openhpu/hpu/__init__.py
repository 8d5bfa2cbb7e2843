"""`torch.hpu`, which is also `habana_frameworks.torch.hpu`: names only, out of the modules beside it."""

from __future__ import annotations

import sys
from typing import Any

from openhpu.hpu import _utils as _utils
from openhpu.hpu import memory as memory
from openhpu.hpu import metrics as metrics
from openhpu.hpu import random as random
from openhpu.hpu._device import (
    DeviceProperties,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    is_available,
    is_bf16_supported,
    is_fp16_supported,
    set_device,
    synchronize,
)
from openhpu.hpu._lifecycle import _is_in_bad_fork as _is_in_bad_fork
from openhpu.hpu._lifecycle import _lazy_init as _lazy_init
from openhpu.hpu._lifecycle import init, is_initialized
from openhpu.hpu.autocast import (
    get_autocast_hpu_dtype,
    is_autocast_hpu_enabled,
    set_autocast_hpu_dtype,
    set_autocast_hpu_enabled,
)
from openhpu.hpu.events import Event
from openhpu.hpu.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    memory_usage,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
)
from openhpu.hpu.monitor import get_sync_debug_mode, set_sync_debug_mode, utilization
from openhpu.hpu.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_ctx,
    set_rng_state,
    set_rng_state_all,
    unset_rng_ctx,
)
from openhpu.hpu.streams import (
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_info,
    record_stream,
    set_stream,
    stream,
)
from openhpu.hpu.switches import (
    disable_const_section_serialization,
    disable_dynamic_shape,
    disable_inference_mode,
    disable_matmul3d_2d_reshape,
    disable_optim_output_sif,
    disable_quantization,
    enable_const_section_serialization,
    enable_dynamic_shape,
    enable_inference_mode,
    enable_matmul3d_2d_reshape,
    enable_optim_output_sif,
    enable_quantization,
    enable_recompute_sdp,
    get_dynamic_shape_status,
    getDeterministic,
    recompute_sdp_enabled,
    sdp_kernel,
    setDeterministic,
)
from openhpu.hpu.tensor_types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DeviceProperties",
    "DoubleTensor",
    "Event",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "disable_const_section_serialization",
    "disable_dynamic_shape",
    "disable_inference_mode",
    "disable_matmul3d_2d_reshape",
    "disable_optim_output_sif",
    "disable_quantization",
    "empty_cache",
    "enable_const_section_serialization",
    "enable_dynamic_shape",
    "enable_inference_mode",
    "enable_matmul3d_2d_reshape",
    "enable_optim_output_sif",
    "enable_quantization",
    "enable_recompute_sdp",
    "getDeterministic",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_autocast_hpu_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_dynamic_shape_status",
    "get_gencode_flags",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_info",
    "get_sync_debug_mode",
    "init",
    "initial_seed",
    "is_autocast_hpu_enabled",
    "is_available",
    "is_bf16_supported",
    "is_fp16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "memory_usage",
    "metrics",
    "random",
    "recompute_sdp_enabled",
    "record_stream",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "sdp_kernel",
    "seed",
    "seed_all",
    "setDeterministic",
    "set_autocast_hpu_dtype",
    "set_autocast_hpu_enabled",
    "set_device",
    "set_rng_ctx",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "synchronize",
    "unset_rng_ctx",
    "utilization",
]

# Libraries also write torch.hpu.hpu and habana_frameworks.torch.core.hpu.
hpu = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return random.default_generators
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
