"""`import habana_frameworks.torch.utils.debug as htdebug`: those of Gaudi's debug helpers that have a meaning here."""

from habana_frameworks.torch.utils.debug import logger, utils
from openhpu.interface.debug import (
    clear_jit_cache as _clear_jit_cache,
    dump_memory_report as _dump_memory_reporter,
    get_tensor_info,
    jit_cache_size as _get_jit_cache_size,
    log_memory as _mem_log,
)
from openhpu.observe.events import fallback_ops as _get_fallback_op_count


def _is_enabled_synapse_layout_handling() -> bool:
    """Whether Gaudi's graph compiler chooses the layout of convolutions' weights: never, tensors keep theirs."""
    return False


__all__ = [
    "_clear_jit_cache",
    "_dump_memory_reporter",
    "_get_fallback_op_count",
    "_get_jit_cache_size",
    "_is_enabled_synapse_layout_handling",
    "_mem_log",
    "get_tensor_info",
    "logger",
    "utils",
]
