"""Gaudi's older names for a trace of a part of a script: start, stop, flush."""

from openhpu.observe.profiler.whole_process import Tracer, enabled


class TraceByHand:
    """A trace from `start` to `stop`, in the file that hl-prof-config names. One at a time in a process."""

    def __init__(self) -> None:
        self._tracer: Tracer | None = None

    def setup(self) -> None:
        """Nothing is to be set up. Kept for scripts that call it."""

    def start(self) -> None:
        """Record from now on. Raises RuntimeError where a trace is being recorded already."""
        if enabled():
            raise RuntimeError("HABANA_PROFILE=1 traces the whole process already: unset it to trace a part")
        if self._tracer is not None:
            raise RuntimeError("the profiler was started already: stop it first")
        self._tracer = Tracer()

    def stop(self) -> None:
        """Wait for the devices, record no more, and write the file. Raises RuntimeError without `start`."""
        if self._tracer is None:
            raise RuntimeError("the profiler was not started")
        from openhpu import _C

        tracer, self._tracer = self._tracer, None
        try:
            if _C.is_initialized():
                for index in range(_C.device_count()):
                    if _C.device_sample(index):
                        _C.synchronize(index)
        finally:
            tracer.write()

    def flush(self) -> None:
        """Write the recording so far, and go on."""
        if self._tracer is not None:
            self.stop()
            self.start()


profiler = TraceByHand()
