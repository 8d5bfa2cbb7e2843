"""How long a step would take on a Gaudi, what bounds it, and whether it fits: see docs/prediction.md."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map

from openhpu_predict.cost import Parameters
from openhpu_predict.devices import Device, load
from openhpu_predict.errors import NeedsValuesError, PredictError
from openhpu_predict.prediction import Prediction, price
from openhpu_predict.processes import ranks
from openhpu_predict.recording import Recorder, Recording

__all__ = [
    "Device",
    "Parameters",
    "PredictError",
    "Prediction",
    "Recording",
    "fake",
    "load",
    "predict",
    "ranks",
    "record",
]

_FAKE = FakeTensorMode(allow_non_fake_inputs=True)


@contextlib.contextmanager
def fake() -> Iterator[None]:
    """Tensors and modules that are made in this context are on hpu and have shapes and no memory.

    PyTorch cannot move a module of fake tensors (`.to`): give its type at once (`dtype=`, `torch.set_default_dtype`).
    """
    with _FAKE, torch.device("hpu"):
        yield


def record(fn: Callable[..., Any], *args: Any, steps: int = 2, ranks: int = 1, **kwargs: Any) -> Recording:
    """Call `fn` `steps` times under fake tensors, each call a step. Nothing is computed. Raises PredictError.

    Every operator counts as the device's, on whichever device its tensors are. Real tensors are not written.
    `ranks`: the cards of a collective.

    Where `fn` needs values (`item()`), it is called once more, for real on this machine's device, and writes what it
    writes; a note of the recording says so. Fake tensors among the arguments become zeros. A fake model has no values,
    and the error is raised.
    """
    recorder = Recorder(None, ranks)
    try:
        with fake(), recorder.watching() as recording:
            for _ in range(steps):
                fn(*args, **kwargs)
                recorder.end_step()
    except NeedsValuesError as error:
        reason = error
    else:
        return recording
    finally:
        recorder.forget()
    return _recorded_for_real(fn, args, kwargs, ranks, reason)


def _recorded_for_real(
    fn: Callable[..., Any], args: Any, kwargs: Any, ranks: int, reason: NeedsValuesError
) -> Recording:
    zeros = 0

    def made(one: Any) -> Any:
        nonlocal zeros
        if isinstance(one, FakeTensor):
            zeros += 1
            return torch.zeros(one.shape, dtype=one.dtype, device=one.device, requires_grad=one.requires_grad)
        return one

    args, kwargs = tree_map(made, (args, kwargs))
    recorder = Recorder(None, ranks)
    with recorder.watching() as recording:
        fn(*args, **kwargs)
        recorder.end_step()
    recording.real = True
    what = f", with zeros in the place of {zeros} fake arguments" if zeros else ""
    recording.notes.append(f"{str(reason).partition(';')[0]}: one real call was recorded{what}")
    return recording


def predict(
    fn: Callable[..., Any],
    *args: Any,
    device: str | Path | Device = "gaudi3",
    mode: str = "graph",
    cards: int = 1,
    batch: int | None = None,
    tokens: int | None = None,
    steps: int = 2,
    **kwargs: Any,
) -> Prediction:
    """Predict a call of `fn`, a step, on a Gaudi. Only the shapes of `args` and `kwargs` count.

    `device`: gaudi2, gaudi3 or a TOML file. `mode`: "graph" (the call is one graph) or "eager" (each operator is
    launched). `cards`: data parallel, each with its own call. `batch`, `tokens`: samples and tokens of a call, or under
    `ranks` of all cards; with `batch` the call is predicted again with four times the rows of each tensor whose first
    size is `batch`. `steps`: how often `fn` is called; the last call counts. Raises PredictError.
    """
    chosen = load(device)
    recording = record(fn, *args, steps=steps, **kwargs)
    found = price(recording, chosen, mode, cards)
    found.samples = batch * cards if batch else None  # `cards` stays 1 under `ranks`
    found.tokens = tokens * cards if tokens else None
    if batch and not recording.real:
        found.advice = [*found.advice, _larger(found, fn, args, kwargs, batch, steps)]
    return found


def _larger(
    found: Prediction, fn: Callable[..., Any], args: Any, kwargs: Any, batch: int, steps: int, factor: int = 4
) -> str:
    """What a larger batch would change, in a sentence."""

    def grow(one: Any) -> Any:
        if isinstance(one, torch.Tensor) and one.dim() and one.shape[0] == batch:
            return torch.empty((batch * factor, *one.shape[1:]), dtype=one.dtype, device=one.device)
        return one

    with fake():
        more_args, more_kwargs = tree_map(grow, (args, kwargs))
    try:
        more = price(record(fn, *more_args, steps=steps, **more_kwargs), found.device, found.mode, found.cards)
    except Exception as error:  # the script's own
        return f"batch {batch} -> {batch * factor}: the call does not take it ({type(error).__name__}: {error})"
    now, then = batch * found.cards / found.seconds, batch * factor * found.cards / more.seconds
    fits = "does not fit" if more.memory.short else "fits"
    return (
        f"batch {batch} -> {batch * factor}: MME utilisation {found.timeline.mme_utilisation:.0%} -> "
        f"{more.timeline.mme_utilisation:.0%}, {now:,.0f} -> {then:,.0f} samples/s, {fits}"
    )
