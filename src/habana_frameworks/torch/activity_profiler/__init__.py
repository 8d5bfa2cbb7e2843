"""`from habana_frameworks.torch.activity_profiler import DebugActivity`."""

from openhpu.observe.profiler.debug_activities import DebugActivity as DebugActivity
