"""`from habana_frameworks.torch.low_overhead_profiler import profiler`: start, stop, flush."""

from openhpu.observe.profiler.by_hand import profiler as profiler
