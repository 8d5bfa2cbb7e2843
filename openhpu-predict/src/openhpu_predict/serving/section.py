"""The answers as a section of the page that `openhpu run --report` writes."""

from typing import Any

from openhpu.observe import added_sections
from openhpu_predict.serving import answers
from openhpu_predict.serving.log import Bucket

_ROWS = 12


class Section:
    """The section of answers that are known."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._found = found

    def start(self) -> None:
        """Nothing is observed."""

    def document(self, _complete: bool) -> dict[str, Any]:
        """See `openhpu.observe.added_sections`."""
        return document(self._found)

    def track(self, _base_ns: int) -> list[dict[str, Any]]:
        """None."""
        return []


def add(found: dict[str, Any]) -> None:
    """Show the answers in this process's report, if it has one."""
    added_sections.add(Section(found))


def document(found: dict[str, Any]) -> dict[str, Any]:
    """Facts, notes and tables of the section."""
    first, later = found["ttft"], found["tpot"]
    facts = [
        ("Requests", f"{found['requests']:,}"),
        ("Time", f"{found['seconds']:,.2f} s"),
        ("Output tokens/s", f"{found['output_tokens_per_s'] or 0:,.1f}"),
        *[(f"First token, {name}", _ms(first[name])) for name in ("median", "p90", "p99")],
        *[(f"Later token, {name}", _ms(later[name])) for name in ("median", "p90", "p99")],
        ("Device busy", f"{found['device_busy']:.0%}"),
        ("Cache, at most", f"{found['memory']['cache_used_most']:.0%}"),
        ("Preemptions", f"{found['preemptions']:,}"),
    ]
    return {
        "title": f"{found['model']} on {answers.cards_text(found)}, simulated",
        "facts": facts,
        "notes": answers.text(found).splitlines()[1:2],
        "lanes": [],
        "tables": _tables(found),
    }


def _tables(found: dict[str, Any]) -> list[tuple[str, tuple[str, ...], list[tuple[Any, ...]]]]:
    """Title, head and rows of each."""
    time = [
        (
            f"{one['from']:,.2f} s",
            one["arrivals"],
            _ms(one["ttft_median"]),
            f"{one['output_tokens_per_s']:,.0f}",
            one["running"],
            one["waiting"],
            f"{one['cache']:.0%}",
        )
        for one in found["over_time"]
    ]
    buckets = [
        (str(Bucket(one["phase"], one["batch"], one["length"], one["blocks"])), one["calls"], f"{one['padding']:.0%}")
        for one in found["buckets"]["rows"][:_ROWS]
    ]
    misses = [
        (f"{one['at']:,.3f} s", str(Bucket(*one["bucket"])), one["call"], one["new"], f"{one['seconds']:,.2f} s")
        for one in found["misses"][:_ROWS]
    ]
    layers = [
        (phase, name, f"{part:.1%}")
        for phase in ("prompt", "decode")
        for name, part in list(found[phase]["layers"].items())[: _ROWS // 2]
    ]
    return [
        ("Over time", ("From", "Arrivals", "First token", "Tokens/s", "Running", "Waiting", "Cache"), time),
        ("Buckets", ("Bucket", "Calls", "Padding"), buckets),
        ("New after the warm-up", ("At", "Bucket", "Call", "What was new", "Compilation"), misses),
        ("Where the device's time goes", ("Phase", "Layer", "Share"), layers),
    ]


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:,.2f} ms"
