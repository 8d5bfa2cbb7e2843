"""What a simulation says: times to the first token and of later ones, throughput, buckets, warm-up, and memory.

Times are in seconds. A request's time to its first token counts from its arrival. Its time for each later token is the
time from its first to its last one, over the number of the later ones; of requests with one token there is none. A
server's share (HTTP) is added to the time to the first token and to the time end to end of each request.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from openhpu_predict.devices import load
from openhpu_predict.prediction import GROUPED, PREFILL, model_error
from openhpu_predict.serving import guards
from openhpu_predict.serving.border import Border
from openhpu_predict.serving.clock import nanoseconds
from openhpu_predict.serving.log import Bucket, Served
from openhpu_predict.serving.prices import EAGER, GRAPHS

_BINS = 20  # parts of the time that are shown
_NS = 1e9


def summary(border: Border, requests: str, lengths_only: bool) -> dict[str, Any]:
    """All answers, ready for JSON. `requests` says where the traffic came from."""
    log, clock = border.log, border.clock
    done = [one for one in log.requests.values() if one.last >= 0]
    end = max((one.last for one in done), default=0)
    begin = min((one.arrival for one in done), default=0)
    seconds = (end - begin) / _NS
    tokens = sum(one.tokens for one in done)
    return {
        **_how(border, requests),
        "requests": len(done),
        "seconds": _r(seconds),
        "prompt_tokens": sum(one.length for one in done),
        "output_tokens": tokens,
        "output_tokens_per_s": _r(tokens / seconds) if seconds else None,
        "requests_per_s": _r(len(done) / seconds) if seconds else None,
        **_times(done, border.settings.http),
        "prefix_hits": {
            "share": _r(sum(one.cached for one in done) / max(sum(one.length for one in done), 1)),
            "note": "only lengths are known, so nothing can hit" if lengths_only else "",
        },
        "preemptions": sum(one.preemptions for one in done),
        "steps": len(log.steps),
        "device_busy": _r(clock.busy / max(clock.now, 1)),
        "host_busy": _r(clock.host / max(clock.now, 1)),
        "idle": _r(clock.idle / max(clock.now, 1)),
        "over_time": over_time(border, done, begin, end),
        "decode": _phase(border, "decode"),
        "prompt": _phase(border, "prompt"),
        "buckets": _buckets(border),
        "misses": _misses(border),
        "guards": log.guards,
        "warmup": _warmup(border),
        "memory": _memory(border),
        "assumptions": _assumptions(border),
    }


def _how(border: Border, requests: str) -> dict[str, Any]:
    """The device, the model, and how the engine is set."""
    prices, config = border.prices, border.engine.vllm_config
    scheduler = config.scheduler_config
    return {
        "device": prices.device.name,
        "cards": border.cards.count,
        "model": config.model_config.model.rstrip("/").rpartition("/")[2],
        "traffic": requests,
        "mode": prices.how,
        "asynchronous_scheduling": bool(scheduler.async_scheduling),
        "prefix_caching": bool(config.cache_config.enable_prefix_caching),
        "chunked_prefill": bool(scheduler.enable_chunked_prefill),
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
    }


def _times(done: Sequence[Served], http: float) -> dict[str, dict[str, float | None]]:
    """Spreads of what requests wait for. `http`: seconds on the way of a first token, and of what follows it."""
    way = nanoseconds(http)
    return {
        "ttft": spread(one.first - one.arrival + way for one in done) | {"http": http},
        "tpot": spread((one.last - one.first) / (one.tokens - 1) for one in done if one.tokens > 1),
        "e2e": spread(one.last - one.arrival + way for one in done),
        "queue": spread(one.scheduled - one.arrival for one in done),
    }


def spread(nanoseconds: Iterable[float]) -> dict[str, float | None]:
    """Mean, median and percentiles in seconds, between neighbours as numpy has them."""
    values = sorted(nanoseconds)
    if not values:
        return dict.fromkeys(("mean", "median", "p90", "p99"))
    shown = {name: percentile(values, part) for name, part in (("median", 0.5), ("p90", 0.9), ("p99", 0.99))}
    return {name: _r(value / _NS) for name, value in {"mean": statistics.fmean(values), **shown}.items()}


def percentile(values: Sequence[float], part: float) -> float:
    """Of sorted values; `part` is 0 to 1."""
    at = part * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def over_time(border: Border, done: list[Served], begin: int, end: int) -> list[dict[str, Any]]:
    """The time in equal parts: requests that came, tokens, waiting and running ones, and the cache."""
    width = max((end - begin) / _BINS, 1)
    http = nanoseconds(border.settings.http)
    parts: list[dict[str, Any]] = []
    first: defaultdict[int, list[float]] = defaultdict(list)
    for one in done:
        first[min(int((one.arrival - begin) / width), _BINS - 1)].append((one.first - one.arrival + http) / _NS)
    tokens: Counter[int] = Counter()
    steps: defaultdict[int, list[Any]] = defaultdict(list)
    for step in border.log.steps:
        part = min(max(int((step.ready - begin) / width), 0), _BINS - 1)
        tokens[part] += sum(call.requests for call in step.calls)
        steps[part].append(step)
    for part in range(_BINS):
        here = steps[part]
        parts.append(
            {
                "from": _r((begin + part * width) / _NS),
                "arrivals": len(first[part]),
                "ttft_median": _r(statistics.median(first[part])) if first[part] else None,
                "output_tokens_per_s": _r(tokens[part] / width * _NS),
                "running": max((step.running for step in here), default=0),
                "waiting": max((step.waiting for step in here), default=0),
                "cache": _r(max((step.usage for step in here), default=0.0)),
                "preemptions": sum(len(step.preempted) for step in here),
            }
        )
    return parts


def _phase(border: Border, phase: str) -> dict[str, Any]:
    """Where the device's time of one phase goes."""
    engines: defaultdict[str, float] = defaultdict(float)
    layers: defaultdict[str, float] = defaultdict(float)
    seconds = unknown = 0.0
    calls = 0
    for (of, _), (price, number) in border.spent.items():
        if of != phase:
            continue
        calls += number if price.what == "forward" else 0
        seconds += price.seconds * number
        unknown += price.unknown * price.seconds * number
        for name, spent in price.engines.items():
            engines[name] += spent * number
        for name, spent in price.layers.items():
            layers[name] += spent * number
    whole = sum(engines.values()) or 1.0
    return {
        "calls": calls,
        "seconds": _r(seconds),
        "seconds_per_call": _r(seconds / calls) if calls else None,
        "engines": {name: _r(spent / whole) for name, spent in _largest(engines)},
        "layers": {name: _r(spent / whole) for name, spent in _largest(layers)[:12]},
        "without_a_cost_of_their_own": _r(unknown / seconds) if seconds else 0.0,
    }


def _largest(seconds: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda one: (-one[1], one[0]))


def _buckets(border: Border) -> dict[str, Any]:
    log = border.log
    warmed = [bucket for bucket in log.warmed if bucket.phase]
    unused = [bucket for bucket in warmed if not log.used[bucket]]
    rows = []
    for bucket, calls in sorted(log.used.items(), key=lambda one: (-one[1], one[0])):
        real, padded = log.padding[bucket]
        rows.append({**bucket._asdict(), "calls": calls, "padding": _r(1 - real / padded)})
    return {
        "warmed": len(warmed),
        "used": len(log.used),
        "unused": [list(bucket) for bucket in sorted(unused)],
        "rows": rows,
    }


def _misses(border: Border) -> list[dict[str, Any]]:
    settings, found = border.settings, []
    for miss in border.log.misses:
        found.append(
            {
                "at": _r(miss.when / _NS),
                "bucket": list(miss.bucket),
                "call": miss.what,
                "new": miss.differs,
                "requests": miss.requests,
                "graphs": miss.graphs,
                "operators": miss.operators,
                "seconds": _r(miss.seconds),
                "seconds_least": _r(miss.operators * settings.compile_least),
                "seconds_most": _r(miss.operators * settings.compile_most),
            }
        )
    return found


def _warmup(border: Border) -> dict[str, Any]:
    graphs = sum(one.graphs for one in border.log.warmed.values())
    operators = sum(one.operators for one in border.log.warmed.values())
    settings = border.settings
    return {
        "graphs": graphs,
        "operators": operators,
        "seconds_least": _r(operators * settings.compile_least),
        "seconds_most": _r(operators * settings.compile_most),
        "published": "ASU-KE/pearc-asu-gaudi2, two graphs of Llama 3.1 8B: 5.7, 13.7, 14.6 and 65.6 s",
    }


def resident(border: Border) -> int:
    """Bytes that are taken while the engine serves: what no program gets, weights, and the cache."""
    return int(border.settings.runtime_bytes) + border.weights + border.cache


def _memory(border: Border) -> dict[str, Any]:
    """Each bucket's memory on both cards; the plugin warms up from the largest bucket to the smallest."""
    base, held = resident(border), 0
    rows: list[dict[str, Any]] = []
    first: dict[str, list[Any]] = {}
    cards = {name: int(load(name).hbm_bytes) for name in ("gaudi2", "gaudi3")}
    for one in border.log.warmed.values():
        peak = base + held + one.workspace
        if border.prices.how == GRAPHS:  # each captured graph keeps its memory
            held += one.workspace
        rows.append({"bucket": list(one.bucket), "workspace": one.workspace, "peak": peak})
        for name, whole in cards.items():
            if peak > whole:
                first.setdefault(name, list(one.bucket))
    used = max((step.usage for step in border.log.steps), default=0.0)
    most = max((one.workspace for one in border.log.warmed.values()), default=0)
    served = max((price.workspace for price, _ in border.spent.values()), default=0)
    return {
        "weights": border.weights,
        "cache": border.cache,
        "cache_blocks": border.engine.vllm_config.cache_config.num_gpu_blocks,
        "cache_used_most": _r(used),
        "runtime": int(border.settings.runtime_bytes),
        "peak_reserved": base + max(most + (held if border.prices.how == GRAPHS else 0), served),
        "peak_used": int(base - border.cache + border.cache * used + served),
        "first_that_does_not_fit": {name: first.get(name) for name in cards},
        "buckets": rows,
    }


def _assumptions(border: Border) -> dict[str, Any]:
    settings = border.settings
    figures = {name: getattr(settings, name) for name in settings.sources}
    return {
        "parameters": {name: {"value": value, "source": settings.sources[name]} for name, value in figures.items()},
        "assumed_of_the_device": border.prices.device.assumed,
        "error_of_the_prices": "; ".join(
            f"{step}: {model_error(kind, border.prices.device)}"
            for step, kind in (("first tokens", PREFILL), ("later tokens", GROUPED))
        ),
    }


def _r(value: float) -> float:
    """Six digits after the point, so that texts are equal on each machine."""
    return round(float(value), 9 if abs(value) < 1 else 6)


# Text.


def text(found: dict[str, Any]) -> str:
    """The answers for people."""
    rows = [*_how_text(found), *_times_text(found)]
    if found["cards"] > 1:
        rows.append(f"tensor parallel on {found['cards']} cards; memory and the device's time are those of one card")
    rows.append(
        "a later token: (last - first) / (tokens - 1) of a request; HTTP adds "
        f"{_ms(found['ttft']['http'])} to each first token and end to end"
    )
    rows.append(
        f"{found['steps']:,} steps; device busy {found['device_busy']:.0%}, host busy {found['host_busy']:.0%}, idle "
        f"{found['idle']:.0%}; {found['preemptions']:,} preemptions; cache used at most "
        f"{found['memory']['cache_used_most']:.0%}"
    )
    hits = found["prefix_hits"]
    rows.append(
        f"prefix cache: {hits['share']:.1%} of the prompts' tokens" + (f" ({hits['note']})" if hits["note"] else "")
    )
    for phase in ("prompt", "decode"):
        rows += _phase_text(phase, found[phase])
    rows += _warmup_text(found)
    rows += _misses_text(found["misses"])
    if found["guards"]:
        rows.append(guards.text(found["guards"]))
    rows += _memory_text(found["memory"], found["mode"])
    rows.append(f"the error of the prices on published rows of steps: {found['assumptions']['error_of_the_prices']}")
    rows += [
        f"  {name} = {one['value']:g} ({one['source']})" for name, one in found["assumptions"]["parameters"].items()
    ]
    return "\n".join(rows)


def _how_text(found: dict[str, Any]) -> list[str]:
    mode = "asynchronous" if found["asynchronous_scheduling"] else "synchronous"
    return [
        f"{found['model']} on {cards_text(found)}, simulated: {found['requests']:,} requests in "
        f"{found['seconds']:,.3f} s ({found['traffic']})",
        f"mode: {found['mode']}, {mode} scheduling, prefix caching {_on(found['prefix_caching'])}, chunked prefill "
        f"{_on(found['chunked_prefill'])}, at most {found['max_num_seqs']} sequences and "
        f"{found['max_num_batched_tokens']:,} tokens a step",
        f"throughput: {found['output_tokens_per_s'] or 0:,.1f} output tokens/s, {found['requests_per_s'] or 0:,.2f} "
        "requests/s",
    ]


def _times_text(found: dict[str, Any]) -> list[str]:
    rows = []
    for name, title in (("ttft", "first token"), ("tpot", "later token"), ("e2e", "end to end"), ("queue", "in queue")):
        one = found[name]
        if one["median"] is not None:
            rows.append(
                f"{title:>12}: median {_ms(one['median'])}, p90 {_ms(one['p90'])}, p99 {_ms(one['p99'])}, mean "
                f"{_ms(one['mean'])}"
            )
    return rows


def cards_text(found: dict[str, Any]) -> str:
    """The device, with the number of cards if there are several."""
    return f"{found['cards']} x {found['device']}" if found["cards"] > 1 else str(found["device"])


def _phase_text(phase: str, one: dict[str, Any]) -> list[str]:
    if not one["calls"]:
        return []
    engines = ", ".join(f"{name} {part:.0%}" for name, part in one["engines"].items() if part >= 0.005)
    layers = ", ".join(f"{name} {part:.0%}" for name, part in list(one["layers"].items())[:6])
    rows = [
        f"{phase}: {one['calls']:,} calls of {_ms(one['seconds_per_call'])}; by engine: {engines}",
        f"  by layer: {layers}",
    ]
    if one["without_a_cost_of_their_own"] >= 0.005:
        rows.append(f"  operators without a cost of their own: {one['without_a_cost_of_their_own']:.1%} of the time")
    return rows


def _warmup_text(found: dict[str, Any]) -> list[str]:
    one, buckets = found["warmup"], found["buckets"]
    rows = []
    if one["operators"]:
        rows.append(
            f"warm-up: {buckets['warmed']} buckets, {one['graphs']:,} graphs of {one['operators']:,} operators, "
            f"{one['seconds_least'] / 60:,.1f} to {one['seconds_most'] / 60:,.1f} min of compilation (assumed; "
            f"published: {one['published']})"
        )
        rows.append(f"  never used: {len(buckets['unused'])} of {buckets['warmed']} buckets")
    elif found["mode"] == EAGER:
        rows.append("warm-up: none, the plugin runs eagerly")
    for row in buckets["rows"][:8]:
        bucket = Bucket(row["phase"], row["batch"], row["length"], row["blocks"])
        rows.append(f"  {row['calls']:>7,} x {bucket}: {row['padding']:.0%} padding")
    return rows


def _misses_text(misses: list[dict[str, Any]]) -> list[str]:
    if not misses:
        return ["graphs that were new after the warm-up: none"]
    cost = sum(one["seconds"] for one in misses)
    least, most = (sum(one[f"seconds_{end}"] for one in misses) for end in ("least", "most"))
    hit = len({name for one in misses for name in one["requests"]})
    rows = [
        f"new after the warm-up: {len(misses)} calls, {cost:,.1f} s ({least:,.1f} to {most:,.1f} s) of compilation, "
        f"while {hit} requests waited"
    ]
    for one in misses[:8]:
        names = ", ".join(one["requests"][:3]) + ", ..." * (len(one["requests"]) > 3)
        rows.append(
            f"  at {one['at']:,.3f} s, {one['call']} of {Bucket(*one['bucket'])}: {one['new']}; "
            f"{one['seconds']:,.2f} s; requests {names}"
        )
    return rows


def _memory_text(one: dict[str, Any], mode: str) -> list[str]:
    rows = [
        f"memory: weights {_gib(one['weights'])}, cache {_gib(one['cache'])} ({one['cache_blocks']:,} blocks), runtime "
        f"{_gib(one['runtime'])}; peak {_gib(one['peak_reserved'])} with the whole cache, {_gib(one['peak_used'])} "
        "with what of it was used"
    ]
    for row in sorted(one["buckets"], key=lambda row: -row["workspace"])[:3]:
        rows.append(
            f"  {Bucket(*row['bucket']) if row['bucket'][0] else 'sampler'}: {_gib(row['workspace'])} while it runs"
        )
    for name, bucket in one["first_that_does_not_fit"].items():
        if bucket:
            rows.append(f"  does not fit a {name}: first {Bucket(*bucket)}")
    return rows


def _on(value: bool) -> str:
    return "on" if value else "off"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms" if seconds < 10 else f"{seconds:,.2f} s"


def _gib(size: float) -> str:
    return f"{size / 2**30:,.2f} GiB"


def steps(border: Border) -> Iterable[dict[str, Any]]:
    """Each step: when it began and had its tokens, the calls with requests and tokens, and what was preempted."""
    for step in border.log.steps:
        yield {
            "begin": _r(step.begin / _NS),
            "ready": _r(step.ready / _NS),
            "calls": [
                {"bucket": list(one.bucket), "requests": one.requests, "tokens": one.tokens} for one in step.calls
            ],
            "running": step.running,
            "waiting": step.waiting,
            "cache": _r(step.usage),
            "preempted": step.preempted,
        }
