"""The prediction of a script in the report of `openhpu run`, and in the trace of HABANA_PROFILE=1."""

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from openhpu_predict import steps, tracks
from openhpu_predict.advice import time_text
from openhpu_predict.devices import load
from openhpu_predict.errors import PredictError
from openhpu_predict.prediction import Prediction, Share, kind_of, model_error, price
from openhpu_predict.recording import Recorder, site_text

_ROWS = 10
_BOXES = 1000  # of a lane


class Section:
    """Records the first steps of a script, and predicts the last of them. `device`: as of `load`."""

    def __init__(self, device: str) -> None:
        self._device = load(Path(device) if device.endswith(".toml") else device)
        self._recorder = Recorder("hpu")
        self._watch = contextlib.ExitStack()
        self._begins = [time.time_ns()]
        self._found: Prediction | str | None = None
        self._pid = 0

    def start(self) -> None:
        """Record from now on, on this thread."""
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._recorder.end)
        # Not in `_finish`: PyTorch goes through the hooks of optimizers then.
        self._recorder.when_ended = self._watch.close
        self._watch.enter_context(steps.counted(self._recorder, self._finish, ended=self._ended))

    def _ended(self) -> None:
        self._begins.append(time.time_ns())

    def _finish(self) -> None:
        """End the recording, and predict."""
        if self._found is not None:
            return
        self._found = "the recording could not be ended"
        self._recorder.end()
        if "torch._dynamo" in sys.modules:
            torch.compiler.reset()  # it never compiles what it met under a dispatch mode
        try:
            self._found = price(self._recorder.recording, self._device, steps.default_mode(self._recorder.recording))
        except PredictError as error:
            self._found = str(error)

    def _complete(self) -> None:
        if self._found is None and os.getpid() == self._pid:
            self._watch.close()
            self._finish()

    def document(self, complete: bool) -> dict[str, Any] | None:
        """See `openhpu.observe.added_sections`."""
        if os.getpid() != self._pid:
            return None
        if complete:
            self._complete()
        found = self._found
        if found is None:
            return None
        if isinstance(found, str):
            return {"title": "Prediction", "facts": [], "notes": [found], "lanes": [], "tables": []}
        return _document(found)

    def track(self, base_ns: int) -> list[dict[str, Any]]:
        """See `openhpu.observe.added_sections`. The predicted step begins where the recorded one did."""
        self._complete()
        if not isinstance(self._found, Prediction):
            return []
        begin = self._begins[max(len(self._begins) - 2, 0)]
        return tracks.events(self._found, max(begin - base_ns, 0) / 1e3)


def _document(found: Prediction) -> dict[str, Any]:
    timeline, memory = found.timeline, found.memory
    facts = [
        ("Step", time_text(found.seconds)),
        ("Bound by", timeline.bound),
        ("MME used", f"{timeline.mme_utilisation:.0%}"),
        ("HBM used", f"{timeline.hbm_utilisation:.0%}"),
        ("Kernels", f"{len(timeline.kernels):,}"),
        ("Launches", f"{timeline.graphs:,}"),
        ("Memory peak", f"{memory.peak / 2**30:.2f} of {found.device.hbm_bytes / 2**30:.0f} GiB"),
    ]
    lanes: dict[str, list[tuple[float, float]]] = {engine: [] for engine in tracks.ENGINES}
    for engine, begin, length, _ in tracks.spans(found):
        lanes[engine].append((begin, begin + length))
    shown = [(engine, _joined(spans, found.seconds * 1e6 / _BOXES)) for engine, spans in lanes.items() if spans]
    head = ("Time", "Share", "Bound by", "MME used", "Where")
    cuts = [(_short(site_text(site)), timeline.read_lines[site], time_text(cost)) for site, cost in found.cuts.items()]
    return {
        "title": found.title,
        "facts": facts,
        "notes": [
            f"Mode: {found.mode}. The error on published rows: {model_error(kind_of(found.nodes), found.device)}.",
            *found.warnings,
            *memory.text(found.device.hbm_bytes)[1:],
            *found.closing(),
        ],
        "lanes": shown,
        "tables": [
            ("Lines that cost most", head, [_cells(one) for one in found.lines[:_ROWS]]),
            ("Layers that cost most", head, [_cells(one) for one in found.layers[:_ROWS]]),
            ("Reads that cut the step", ("Line", "Times", "Cost"), cuts),
        ],
    }


def _cells(share: Share) -> tuple[str, ...]:
    return (
        time_text(share.seconds),
        f"{share.part:.1%}",
        share.bound,
        f"{share.mme_utilisation:.0%}",
        _short(share.name),
    )


def _short(place: str) -> str:
    return place.rpartition("/")[2]


def _joined(spans: list[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Spans that lie closer than `gap` as one: no screen shows more."""
    found: list[tuple[float, float]] = []
    for begin, end in spans:
        if found and begin - found[-1][1] < gap and found[-1][1] - found[-1][0] < gap:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found
