"""`from habana_frameworks.torch.profiler import ProfilerApi`: older names of a trace of a part of a script."""

from openhpu.observe.profiler.by_hand import profiler


class ProfilerApi:
    """A trace from `start_profiler` to `stop_profiler`."""

    setup_profiler = staticmethod(profiler.setup)
    start_profiler = staticmethod(profiler.start)
    stop_profiler = staticmethod(profiler.stop)


__all__ = ["ProfilerApi"]
