"""A plan: which cards, largest batch and buckets serve a trace within limits of time.

Each candidate serves the whole trace. Its goodput counts the requests that meet both limits. The simulation's times
have an error on published rows. Therefore each share is also given for times that are longer, and shorter, by this
error.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from openhpu_predict.errors import PredictError
from openhpu_predict.serving.answers import percentile
from openhpu_predict.serving.settings import Errors

_UNITS = {"ms": 1e-3, "s": 1.0}
_LIMIT = re.compile(r"(ttft|tpot)=([0-9.]+)(ms|s)")
_SHARE = re.compile(r"share=([0-9.]+)%")
STRATEGIES = ("exp", "lin", "pad")  # of the plugin: VLLM_BUCKETING_STRATEGY


class Limits(NamedTuple):
    """Seconds to the first token and for each later one, which the `share` of the requests has to meet, 0 to 1."""

    ttft: float
    tpot: float
    share: float

    def __str__(self) -> str:
        parts = [
            f"{name} within {_ms(value)}"
            for name, value in (("first tokens", self.ttft), ("later tokens", self.tpot))
            if value < float("inf")
        ]
        return f"{' and '.join(parts)} for {self.share:.0%} of the requests"


def limits(text: str) -> Limits:
    """Limits as `ttft=500ms,tpot=40ms` or `ttft=1s,share=99%`. Raises PredictError."""
    found = {"ttft": float("inf"), "tpot": float("inf"), "share": 0.9}
    given = set()
    for part in text.replace(" ", "").split(","):
        limit, share = _LIMIT.fullmatch(part), _SHARE.fullmatch(part)
        try:
            if limit:
                given.add(limit[1])
                found[limit[1]] = float(limit[2]) * _UNITS[limit[3]]
                good = found[limit[1]] > 0
            else:
                found["share"] = float(share[1]) / 100 if share else -1.0
                good = 0 < found["share"] <= 1
        except ValueError:
            good = False
        if not good:
            raise PredictError(f"--plan: {part!r} is no limit; expected ttft=500ms,tpot=40ms,share=90% or a part of it")
    if not given:
        raise PredictError(f"--plan is {text!r}; expected a limit, as ttft=500ms or tpot=40ms")
    return Limits(**found)


class Candidate(NamedTuple):
    """What is tried: cards (tensor parallel), the most sequences of a batch, and how the plugin makes its buckets."""

    cards: int
    seqs: int
    buckets: str

    @property
    def options(self) -> list[str]:
        """Of vLLM."""
        return [f"--tensor-parallel-size={self.cards}", f"--max-num-seqs={self.seqs}"]


def candidates(cards: str, seqs: str, buckets: str, options: Sequence[str]) -> list[Candidate]:
    """All combinations of three lists. `options` are vLLM's, which must not name what is searched. Raises PredictError.

    Candidates with the same cards have common prices, so they do not follow one another: some run at the same time.
    """
    for name, ours in (("--tensor-parallel-size", "--plan-cards"), ("--max-num-seqs", "--plan-max-num-seqs")):
        if any(one.partition("=")[0] == name for one in options):
            raise PredictError(f"{name} is what a plan searches; give the values to try: {ours} 1,2,4")
    numbers = []
    for name, text in (("--plan-cards", cards), ("--plan-max-num-seqs", seqs)):
        values = text.split(",")
        if not all(one.isascii() and one.isdigit() and int(one) > 0 for one in values):
            raise PredictError(f"{name} is {text!r}; expected whole numbers of at least 1 with commas between them")
        numbers.append(sorted({int(one) for one in values}))
    names = buckets.split(",")
    if unknown := [one for one in names if one not in STRATEGIES]:
        raise PredictError(f"--plan-buckets has {unknown[0]!r}; expected some of {', '.join(STRATEGIES)}")
    found = itertools.product(numbers[1], dict.fromkeys(names), numbers[0])
    return [Candidate(count, most, how) for most, how, count in found]


class Times(NamedTuple):
    """Of a request, in seconds. `tpot` is None for a request of one token."""

    ttft: float
    tpot: float | None
    queue: float


@dataclass
class Outcome:
    """A candidate that served the trace. `error`: why it could not. `buckets`: how many the warm-up would make."""

    candidate: Candidate
    answers: dict[str, Any] = field(default_factory=dict)
    times: list[Times] = field(default_factory=list)
    buckets: int = 0
    error: str = ""

    def share(self, wanted: Limits, first: float = 1.0, later: float = 1.0) -> float:
        """The share of the requests that meet both limits, were their times longer by these factors."""
        if not self.times:
            return 0.0
        met = sum(
            one.ttft * first <= wanted.ttft and (one.tpot is None or one.tpot * later <= wanted.tpot)
            for one in self.times
        )
        return met / len(self.times)

    def goodput(self, wanted: Limits) -> float:
        """Requests a second that meet both limits."""
        seconds = self.answers.get("seconds") or 0.0
        return self.share(wanted) * len(self.times) / seconds if seconds else 0.0


def row(one: Outcome, wanted: Limits, errors: Errors) -> dict[str, Any]:
    """A row of the plan."""
    low = one.share(wanted, 1 + errors.first, 1 + errors.later)
    high = one.share(wanted, 1 / (1 + errors.first), 1 / (1 + errors.later))
    share = one.share(wanted)
    meets = "yes" if low >= wanted.share else "likely" if share >= wanted.share else "perhaps"
    firsts = sorted(time.ttft for time in one.times)
    laters = sorted(time.tpot for time in one.times if time.tpot is not None)
    return {
        **one.candidate._asdict(),
        "meets": meets if high >= wanted.share else "no",
        "share": share,
        "share_least": low,
        "share_most": high,
        "goodput": one.goodput(wanted),
        "output_tokens_per_s": one.answers.get("output_tokens_per_s"),
        "ttft_p90": percentile(firsts, 0.9) if firsts else None,
        "tpot_p90": percentile(laters, 0.9) if laters else None,
        "warm_up_buckets": one.buckets,
        "bound": one.error or bound(one, wanted),
        "runs": not one.error,
    }


def bound(one: Outcome, wanted: Limits) -> str:
    """What keeps requests from the limits; if all meet them, what comes nearest to a limit."""
    found = one.answers
    late = [time for time in one.times if time.ttft > wanted.ttft]
    slow = [time for time in one.times if time.tpot is not None and time.tpot > wanted.tpot]
    first, later = (found["ttft"]["p90"] or 0.0) / wanted.ttft, (found["tpot"]["p90"] or 0.0) / wanted.tpot
    if late or slow:
        of_first = len(late) >= len(slow)
        prefix = f"{len(late if of_first else slow):,} requests miss it: "
    else:
        of_first, prefix = first >= later, "nearest: "
    if of_first:
        times = late or one.times
        queued = sum(time.queue for time in times) > sum(time.ttft for time in times) / 2
        why = "a place in the batch or the cache" if found["preemptions"] or queued else _engine(found["prompt"])
        return f"first token; {prefix}{'waits for ' * (queued or bool(found['preemptions']))}{why}"
    if found["host_busy"] > found["device_busy"]:
        return f"later token; {prefix}the host's share of a step"
    between = found["prompt"]["seconds"] > found["decode"]["seconds"]
    phase = "prompts between the decodes" if between else "decodes"
    return f"later token; {prefix}{phase}, {_engine(found['prompt' if between else 'decode'])}"


def _engine(phase: dict[str, Any]) -> str:
    return next(iter(phase["engines"]), "nothing")


_ORDER = ("yes", "likely", "perhaps", "no")


def ranked(outcomes: Sequence[Outcome], wanted: Limits, errors: Errors) -> list[dict[str, Any]]:
    """Rows, the best first: those that meet the limits with the fewest cards, and of those the highest goodput."""

    def key(one: dict[str, Any]) -> tuple[Any, ...]:
        met = one["meets"] in ("yes", "likely")
        return (
            not one["runs"],
            not met,
            one["cards"] if met else -one["share"],
            -one["goodput"],
            one["seqs"],
            one["warm_up_buckets"],
            one["buckets"],
        )

    return sorted((row(one, wanted, errors) for one in outcomes), key=key)


def summary(
    outcomes: Sequence[Outcome], wanted: Limits, errors: Errors, model: str, device: str, source: str
) -> dict[str, Any]:
    """All of the plan, ready for JSON."""
    rows = ranked(outcomes, wanted, errors)
    return {
        "model": model,
        "device": device,
        "traffic": source,
        "limits": {"ttft": _finite(wanted.ttft), "tpot": _finite(wanted.tpot), "share": wanted.share},
        "wanted": str(wanted),
        "errors": errors._asdict(),
        "rows": rows,
        "met": any(one["meets"] in ("yes", "likely") for one in rows),
    }


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None


def text(found: dict[str, Any]) -> str:
    """The plan for people."""
    rows = [
        f"plan for {found['model']} on {found['device']}, {found['traffic']}: {found['wanted']}",
        "meets: yes (with the error of the simulation against it), likely, perhaps (with the error for it), no. The "
        f"error is the median on published rows: first token {found['errors']['first']:.0%}, later token "
        f"{found['errors']['later']:.0%}.",
        f"{'cards':>5} {'batch':>5} {'buckets':>10} {'meets':>8} {'share (range)':>19} {'good/s':>8} {'tokens/s':>9} "
        f"{'first p90':>10} {'later p90':>10}  bound by",
    ]
    return "\n".join([*rows, *map(_row_text, found["rows"]), _best_text(found)])


def _row_text(one: dict[str, Any]) -> str:
    head = f"{one['cards']:>5} {one['seqs']:>5} {one['buckets'] + ' ' + str(one['warm_up_buckets']):>10} "
    if not one["runs"]:
        return f"{head}{'-':>8} {one['bound']}"
    share = f"{one['share']:.0%} ({one['share_least']:.0%} to {one['share_most']:.0%})"
    return (
        f"{head}{one['meets']:>8} {share:>19} {one['goodput']:>8.2f} {one['output_tokens_per_s'] or 0:>9,.0f} "
        f"{_ms(one['ttft_p90']):>10} {_ms(one['tpot_p90']):>10}  {one['bound']}"
    )


def _best_text(found: dict[str, Any]) -> str:
    best, *others = found["rows"]
    if not found["met"]:
        return (
            f"nothing meets the limits; the best row has {best['share']:.0%} of the requests within them "
            f"({best['cards']} cards, batch {best['seqs']}); it is bound by: {best['bound']}"
        )
    rivals = [one for one in others if one["meets"] != "no" and one["cards"] == best["cards"]]
    near = [one for one in rivals if one["goodput"] >= best["goodput"] * (1 - found["errors"]["later"])]
    return (
        f"best: {best['cards']} cards, batch {best['seqs']}, buckets {best['buckets']}; {len(near)} rows with as "
        "many cards are within the error of it"
    )


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"
