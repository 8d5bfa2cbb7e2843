"""`torch.hpu`, which is also `habana_frameworks.torch.hpu`: only names, from the modules beside it."""

from __future__ import annotations

import sys
from typing import Any

from openhpu.capture import hpu_graphs
from openhpu.capture.hpu_graphs import (
    CachedParams as CachedParams,
    HPUGraph as HPUGraph,
    ModuleCacher as ModuleCacher,
    TensorPacker as TensorPacker,
    graph as graph,
    is_current_stream_capturing as is_current_stream_capturing,
    make_graphed_callables as make_graphed_callables,
    wrap_in_hpu_graph as wrap_in_hpu_graph,
    wrap_in_hpu_graph_func as wrap_in_hpu_graph_func,
)
from openhpu.device import arguments, memory as memory, random as random, streams as streams
from openhpu.device.arguments import _get_device_index as _get_device_index
from openhpu.device.devices import (
    DeviceProperties as DeviceProperties,
    can_device_access_peer as can_device_access_peer,
    current_device as current_device,
    device as device,
    device_count as device_count,
    device_of as device_of,
    get_amp_supported_dtype as get_amp_supported_dtype,
    get_arch_list as get_arch_list,
    get_device_capability as get_device_capability,
    get_device_name as get_device_name,
    get_device_properties as get_device_properties,
    get_gencode_flags as get_gencode_flags,
    is_available as is_available,
    is_bf16_supported as is_bf16_supported,
    is_fp16_supported as is_fp16_supported,
    set_device as set_device,
    synchronize as synchronize,
)
from openhpu.device.lifecycle import (
    _is_in_bad_fork as _is_in_bad_fork,
    _lazy_init as _lazy_init,
    init as init,
    is_initialized as is_initialized,
)
from openhpu.device.memory import (
    empty_cache as empty_cache,
    max_memory_allocated as max_memory_allocated,
    max_memory_cached as max_memory_cached,
    max_memory_reserved as max_memory_reserved,
    mem_get_info as mem_get_info,
    memory_allocated as memory_allocated,
    memory_cached as memory_cached,
    memory_reserved as memory_reserved,
    memory_stats as memory_stats,
    memory_summary as memory_summary,
    memory_usage as memory_usage,
    reset_accumulated_memory_stats as reset_accumulated_memory_stats,
    reset_max_memory_allocated as reset_max_memory_allocated,
    reset_max_memory_cached as reset_max_memory_cached,
    reset_peak_memory_stats as reset_peak_memory_stats,
)
from openhpu.device.random import (
    get_rng_state as get_rng_state,
    get_rng_state_all as get_rng_state_all,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    manual_seed_all as manual_seed_all,
    seed as seed,
    seed_all as seed_all,
    set_rng_ctx as set_rng_ctx,
    set_rng_state as set_rng_state,
    set_rng_state_all as set_rng_state_all,
    unset_rng_ctx as unset_rng_ctx,
)
from openhpu.device.streams import (
    Event as Event,
    Stream as Stream,
    StreamContext as StreamContext,
    current_stream as current_stream,
    default_stream as default_stream,
    get_stream_info as get_stream_info,
    record_stream as record_stream,
    set_stream as set_stream,
    stream as stream,
)
from openhpu.interface.hpu.autocast import (
    get_autocast_hpu_dtype as get_autocast_hpu_dtype,
    is_autocast_hpu_enabled as is_autocast_hpu_enabled,
    set_autocast_hpu_dtype as set_autocast_hpu_dtype,
    set_autocast_hpu_enabled as set_autocast_hpu_enabled,
)
from openhpu.interface.hpu.monitor import (
    get_sync_debug_mode as get_sync_debug_mode,
    set_sync_debug_mode as set_sync_debug_mode,
    utilization as utilization,
)
from openhpu.interface.hpu.switches import (
    disable_const_section_serialization as disable_const_section_serialization,
    disable_dynamic_shape as disable_dynamic_shape,
    disable_inference_mode as disable_inference_mode,
    disable_matmul3d_2d_reshape as disable_matmul3d_2d_reshape,
    disable_optim_output_sif as disable_optim_output_sif,
    disable_quantization as disable_quantization,
    enable_const_section_serialization as enable_const_section_serialization,
    enable_dynamic_shape as enable_dynamic_shape,
    enable_inference_mode as enable_inference_mode,
    enable_matmul3d_2d_reshape as enable_matmul3d_2d_reshape,
    enable_optim_output_sif as enable_optim_output_sif,
    enable_quantization as enable_quantization,
    enable_recompute_sdp as enable_recompute_sdp,
    get_dynamic_shape_status as get_dynamic_shape_status,
    getDeterministic as getDeterministic,
    recompute_sdp_enabled as recompute_sdp_enabled,
    sdp_kernel as sdp_kernel,
    setDeterministic as setDeterministic,
)
from openhpu.interface.hpu.tensor_types import (
    BFloat16Tensor as BFloat16Tensor,
    BoolTensor as BoolTensor,
    ByteTensor as ByteTensor,
    CharTensor as CharTensor,
    DoubleTensor as DoubleTensor,
    FloatTensor as FloatTensor,
    HalfTensor as HalfTensor,
    IntTensor as IntTensor,
    LongTensor as LongTensor,
    ShortTensor as ShortTensor,
)
from openhpu.observe import metrics as metrics

_utils = arguments  # as torch.cuda._utils
graphs = hpu_graphs
# Libraries also write torch.hpu.hpu and habana_frameworks.torch.core.hpu.
hpu = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return random.default_generators
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
