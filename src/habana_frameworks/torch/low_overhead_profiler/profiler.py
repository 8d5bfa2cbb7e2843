"""`import habana_frameworks.torch.low_overhead_profiler.profiler`: the same as a module of its own."""

from openhpu.observe.profiler.by_hand import profiler as _profiler

setup = _profiler.setup
start = _profiler.start
stop = _profiler.stop
flush = _profiler.flush

__all__ = ["flush", "setup", "start", "stop"]
