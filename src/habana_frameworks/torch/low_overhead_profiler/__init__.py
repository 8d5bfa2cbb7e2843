"""`from habana_frameworks.torch.low_overhead_profiler import profiler`: start, stop, flush."""

from habana_frameworks.torch.low_overhead_profiler import profiler as profiler
