"""Serves the traffic with each candidate of a plan."""

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from openhpu_predict.devices import Device
from openhpu_predict.serving import candidates, engine as engines
from openhpu_predict.serving.border import Border
from openhpu_predict.serving.plan import Candidate, Outcome, Times
from openhpu_predict.serving.settings import Settings
from openhpu_predict.serving.traffic import Request

_NS = 1e9


class Work(NamedTuple):
    """What all candidates have in common: `options` are vLLM's, `block` and `concurrency` as for `engine.serve`."""

    device: Device
    settings: Settings
    model: str
    options: Sequence[str]
    requests: Sequence[Request]
    source: str
    block: int
    concurrency: int


def serve_all(work: Work, tried: Sequence[Candidate], at_once: int = 0) -> list[Outcome]:
    """An outcome for each candidate. `at_once`: processes; 0: one for each core. Raises PredictError.

    The processes are forks of this one, which imports vLLM and begins nothing. Candidates with equally many cards have
    the same prices.
    """
    border = engines.begin(work.device, work.settings)
    border.all_warm = True

    def serve(candidate: Candidate, known: dict[Any, Any]) -> tuple[Outcome, dict[Any, Any]]:
        return _serve(border, work, candidate, known)

    def tell(candidate: Candidate, found: Any) -> None:
        print(f"openhpu serve-sim: {done()} of {len(tried)} candidates", file=sys.stderr)

    count = iter(range(1, len(tried) + 1))

    def done() -> int:
        return next(count)

    at_once = at_once or len(os.sched_getaffinity(0))
    found = candidates.run(tried, lambda one: one.cards, serve, at_once, tell)
    return [
        Outcome(one, error=outcome.why) if isinstance(outcome, candidates.Failed) else outcome
        for one, outcome in zip(tried, found, strict=True)
    ]


def _serve(border: Border, work: Work, candidate: Candidate, known: dict[Any, Any]) -> tuple[Outcome, dict[Any, Any]]:
    """In the candidate's process."""
    from openhpu_predict.serving import answers

    os.environ["VLLM_BUCKETING_STRATEGY"] = candidate.buckets
    os.environ["VLLM_SKIP_WARMUP"] = "true"  # each bucket that is met is priced; the others need no price
    border.take_prices(known)
    engine = engines.make(border, work.model, [*work.options, *candidate.options])
    engines.serve(border, engine, work.requests, work.block, work.concurrency)
    http = work.settings.http
    times = [
        Times(
            (one.first - one.arrival) / _NS + http,
            (one.last - one.first) / (one.tokens - 1) / _NS if one.tokens > 1 else None,
            (one.scheduled - one.arrival) / _NS,
        )
        for one in border.log.requests.values()
    ]
    found = answers.summary(border, work.source, False)
    return Outcome(candidate, found, times, border.buckets), {
        key: price for key, price in border.known_prices().items() if key not in known
    }
