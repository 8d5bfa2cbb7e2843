"""A bucket planner: the buckets that a trace needs, as a list that the plugin reads (VLLM_BUCKETING_FROM_FILE)."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from openhpu_predict.serving.log import Bucket


def chosen(used: Mapping[Bucket, int], share: float) -> list[Bucket]:
    """The buckets with most calls that have the `share` (0 to 1) of all calls, and what the other calls need.

    A call of a bucket that is left out goes to a larger one of the list, with more padding. Where the list has no
    larger one, the bucket is taken, too: else its calls would meet a new graph.
    """
    ordered = sorted(used, key=lambda one: (-used[one], one))
    wanted = share * sum(used.values())
    kept: list[Bucket] = []
    within = 0
    for bucket in ordered:
        if within >= wanted:
            break
        kept.append(bucket)
        within += used[bucket]
    rest = sorted(set(ordered) - set(kept), reverse=True)  # a larger one before those that it serves
    for bucket in rest:
        if not _larger(bucket, kept):
            kept.append(bucket)
    return kept


def _larger(bucket: Bucket, others: list[Bucket]) -> bool:
    return any(
        one.phase == bucket.phase and all(a >= b for a, b in zip(one[1:], bucket[1:], strict=True)) for one in others
    )


def listed(found: dict[str, Any], used: Counter[Bucket], share: float) -> tuple[str, str]:
    """The list as the plugin reads it, and what it is in a sentence. `found`: the answers."""
    kept = chosen(used, share)
    calls = sum(used.values()) or 1
    within = sum(used[one] for one in kept)
    lines = [
        f"# {found['model']} on {found['device']}, {found['traffic']}",
        "# (batch, tokens of a query, blocks of the cache), the most used first; a query of 1 token is a decode",
    ]
    lines += [f"({one.batch}, {one.length}, {one.blocks})  # {one.phase}, {used[one] / calls:.2%}" for one in kept]
    all_of_them = found["buckets"]["warmed"]
    of = f" of {all_of_them} of the warm-up" if all_of_them else ""
    sentence = f"{len(kept)} buckets{of} serve {within / calls:.1%} of the calls"
    return "\n".join(lines) + "\n", sentence
