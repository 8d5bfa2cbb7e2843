"""Runs calls and says what came of each: results with their numbers, or an error. For recordings and for replays."""

import time
from collections.abc import Callable
from typing import Any

import torch

from openhpu_record import calls, describing
from openhpu_record.device import synchronize
from openhpu_record.environment import without_names
from openhpu_record.errors import RecordError

MOST_KEPT = 4096  # elements of a result that are kept; of a larger one these, evenly spaced
_TEXT = 400  # characters of an error
_SEED = 20_250  # of the two draws that must be equal
_DIFFERENT = 100  # numbers among random ones, from which on there are deciles
_RUNS = 2  # that are timed; the fastest counts

Kept = Callable[[dict[str, Any]], torch.Tensor]


def no_tensor(place: dict[str, Any]) -> torch.Tensor:
    """For calls whose inputs are all made."""
    raise RecordError(f"the tensor {place['name']!r} is not there")


def run(
    call: dict[str, Any], device: str, kept: Kept = no_tensor, most: int = MOST_KEPT
) -> Callable[[], dict[str, Any]]:
    """Begin a call. The function that is returned reads the results: `{"results": [...]}` or `{"error": ...}`.

    A result has its form, `numbers`, `hash` and `values`, a tensor on the host of at most `most` elements, with `step`,
    their distance.
    """
    try:
        found = calls.ready(call, device, kept)()
    except Exception as error:
        problem = failed(error)
        return lambda: problem

    def read() -> dict[str, Any]:
        try:
            return {"results": [read_result(one, most) for one in found]}
        except Exception as error:
            return failed(error)

    return read


def read_result(result: torch.Tensor, most: int = MOST_KEPT) -> dict[str, Any]:
    """The form of a result, its numbers, and those of its elements that are kept. Waits for the device."""
    about = describing.form(result)
    if result.layout is not torch.strided or result.is_quantized:
        return about
    part, step = describing.spaced(result)
    host = part.cpu()
    values, more = describing.spaced(host, most)
    about |= {"numbers": describing.numbers(host), "hash": describing.digest(host)}
    about |= {"values": values, "step": step * more if step else 0}
    return about


def failed(error: Exception) -> dict[str, Any]:
    """An error as an outcome. An operator that is missing is no refusal."""
    text = without_names(str(error))[:_TEXT]
    about: dict[str, Any] = {"type": type(error).__name__, "text": text}
    about["missing"] = isinstance(error, calls.UnknownOperatorError)
    about["too_large"] = isinstance(error, calls.TooLargeError)
    return {"error": about}


def distribution(call: dict[str, Any], device: str) -> dict[str, Any]:
    """What a random operator draws: statistics, and whether a seed gives the same numbers again.

    Deciles where there are many different numbers; else they are steps.
    """
    torch.manual_seed(_SEED)
    first = run(call, device, most=describing.MOST_ELEMENTS)()
    torch.manual_seed(_SEED)
    second = run(call, device)()
    for one, again in zip(first.get("results", []), second.get("results", [])):
        values = one["values"].double().sort()[0]
        many = len(values.unique()) > _DIFFERENT
        one["deciles"] = [float(values[(len(values) - 1) * k // 10]) for k in range(11)] if many else []
        one["repeats"] = one["hash"] == again["hash"]
        one["values"] = values[:0]  # the numbers of one seed are those of one generator
    return first


def seconds(call: dict[str, Any], device: str, kept: Kept = no_tensor, runs: int = _RUNS) -> float | None:
    """The time of the call between two synchronisations, the shortest of some. None: it does not run."""
    try:
        once = calls.ready(call, device, kept)
        found = []
        for _ in range(runs):
            synchronize(device)
            began = time.perf_counter()
            results = once()
            synchronize(device)
            found.append(time.perf_counter() - began)
            del results
    except Exception:
        return None
    return min(found)


def stored(outcome: dict[str, Any], keep: Callable[[str, torch.Tensor], dict[str, Any] | None], name: str) -> Any:
    """The outcome as JSON, whose values are kept in the recording."""
    if "error" in outcome:
        return outcome
    written = []
    for number, one in enumerate(outcome["results"]):
        about = dict(one)
        values = about.pop("values", None)
        if values is not None and values.numel():
            about["kept"] = keep(f"{name}.{number}", values)
        written.append(about)
    return {"results": written}
