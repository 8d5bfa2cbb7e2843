"""Capturing by hand: `HPUGraph` and the context manager `graph`."""

import gc
from typing import Any, ClassVar

import torch

from openhpu import _C, settings
from openhpu.capture.hpu_graphs import compared, marked
from openhpu.capture.hpu_graphs.account import Capturing
from openhpu.compiler.client import client
from openhpu.device import devices, lifecycle, mode, streams
from openhpu.observe import differences


class HPUGraph(_C.CapturedGraph):
    """The operators of a thread on the current device between `capture_begin` and `capture_end`, for `replay`.

    Operators run during the capture as well. A replay runs them on the same memory: write new inputs into the tensors
    that the capture read, and find the results in the tensors that it made. The memory stays for as long as the graph
    does, whatever becomes of the tensors. Random operators draw new seeds in each replay. Works in every mode.
    """

    _by_hand: Capturing | None = None

    def capture_begin(self, dry_run: bool = False) -> None:  # type: ignore[override]  # `undone` is the next method
        """Begin the capture on the current stream of the current device.

        With `dry_run` (or PT_HPUGRAPH_ENABLE_DRY_RUN) the capture has no effect beside the graph: at its end everything
        that was changed in place has its contents back, and so has the random generator. Raises RuntimeError when a
        capture is in progress on the device, or when this graph holds one already.
        """
        self._prepare()
        self._by_hand = Capturing()
        super().capture_begin(dry_run or settings.get("PT_HPUGRAPH_ENABLE_DRY_RUN"))

    def capture_begin_undone(self) -> None:
        """Begin a dry run that goes on after an operator that cannot be captured. Its end, or `abandon`, undoes it."""
        self._prepare()
        self._by_hand = None
        super().capture_begin(dry_run=True, undone=True)

    @staticmethod
    def _prepare() -> None:
        lifecycle.prepare()
        if not mode.is_lazy():
            differences.note("graphs-in-eager")
        client.start_compiling()

    def capture_end(self, compile: bool = True) -> None:
        """End the capture, on the thread and stream on which it began, and ask for the graph's recipe.

        Without `compile` the first replay asks for it.

        Raises RuntimeError when an operator was refused meanwhile, with its name and line; nothing is captured then.
        """
        if constants := marked.on_device(devices.current_device()):
            self.mark_weights(constants)
        super().capture_end()
        if compile:
            self.compile()
        if self._by_hand:
            self._by_hand.done(self)
            if settings.get("OPENHPU_CHECK_GRAPHS"):
                if not self.describe()["collectives"]:
                    self.check_replays()
                self.__class__ = _CheckedGraph


def _told(name: str) -> Any:
    """The function of HPUGraph, which says what differs."""
    plain = getattr(HPUGraph, name)

    def call(self: "_CheckedGraph", *args: Any, **kwargs: Any) -> Any:
        results = plain(self, *args, **kwargs)
        self._tell()
        return results

    return call


class _CheckedGraph(HPUGraph):
    """Captured by hand, with OPENHPU_CHECK_GRAPHS: each replay runs beside its operators, one by one, on copies."""

    _number = 0
    replay, replayV2, replayV3, run = map(_told, ("replay", "replayV2", "replayV3", "run"))

    def _tell(self) -> None:
        if not self._number:
            self._number = compared.new_number()
        found = self.unequal()
        if found is None:
            why = compared.COLLECTIVES if self.describe()["collectives"] else compared.NO_MEMORY
            compared.say("", "unchecked", why, graph=self._number)
            return
        allowed = compared.allowance(self)(compared.coarsest(self.describe()["dtypes"]))
        for op, site, replayed, plain in found:
            if not compared.close(replayed, plain, allowed):
                why = "the operators of the graph, one by one, have another result than its recipe"
                text = f"it differs in {compared.amount(replayed, plain)}: {why}"
                compared.say("", "different", text, op, site, self._number)
                return
        compared.say("", "equal", graph=self._number)


class graph:  # a context manager, named as in torch.cuda
    """Context manager: what happens inside is captured by `hpu_graph`, on `stream` or on a stream for captures.

    Waits for the device first. After an exception inside nothing is captured, and `hpu_graph` can capture again.
    """

    default_capture_stream: ClassVar[dict[int, streams.Stream]] = {}

    def __init__(self, hpu_graph: HPUGraph, stream: torch.Stream | None = None, dry_run: bool = False) -> None:
        self.hpu_graph = hpu_graph
        self.dry_run = dry_run
        if stream is None:
            index = devices.current_device()
            stream = self.default_capture_stream.get(index)
            if stream is None:
                stream = self.default_capture_stream[index] = streams.Stream(index)
        self.stream = stream
        self._on_stream = streams.StreamContext(stream)

    def __enter__(self) -> None:
        if streams.is_current_stream_capturing():
            raise RuntimeError(
                "graph: a graph capture is already in progress. End it before the next one begins; captures don't nest."
            )
        devices.synchronize()
        gc.collect()
        self._on_stream.__enter__()
        try:
            self.hpu_graph.capture_begin(self.dry_run)
        except BaseException:
            self._on_stream.__exit__()
            raise

    def __exit__(self, *exception: Any) -> None:
        try:
            if exception[0] is None:
                self.hpu_graph.capture_end()
            else:
                self.hpu_graph.abandon(exception[0].__name__)
        finally:
            self._on_stream.__exit__(*exception)
