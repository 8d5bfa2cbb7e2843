"""`from habana_frameworks.torch.utils.profiler import _setup_profiler, _start_profiler, _stop_profiler`."""

from openhpu.observe.profiler.by_hand import profiler

_setup_profiler = profiler.setup
_start_profiler = profiler.start
_stop_profiler = profiler.stop

__all__ = ["_setup_profiler", "_start_profiler", "_stop_profiler"]
