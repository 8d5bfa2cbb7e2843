"""What a simulation notes: requests, steps, and buckets. Times are nanoseconds from the begin."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Bucket(NamedTuple):
    """The plugin's padded sizes of a call: `phase` is prompt or decode; `blocks` of the cache."""

    phase: str
    batch: int
    length: int
    blocks: int

    def __str__(self) -> str:
        return f"{self.phase} {self.batch} x {self.length}, {self.blocks} blocks"


@dataclass
class Call:
    """A call of the model: what it was padded to, and what it was for."""

    bucket: Bucket
    requests: int
    tokens: int  # of requests, without padding


@dataclass
class Step:
    """A step of the engine. `ready`: its tokens are on the host. `usage` of the cache, 0 to 1."""

    begin: int
    calls: list[Call]
    ready: int = 0
    running: int = 0
    waiting: int = 0
    usage: float = 0.0
    preempted: list[str] = field(default_factory=list)


@dataclass
class Miss:
    """Graphs that serving met first. `differs`: what was new, against the nearest that was known."""

    bucket: Bucket
    what: str
    differs: str
    when: int
    requests: list[str]
    graphs: int
    operators: int
    seconds: float  # that the host stood still


@dataclass
class Served:
    """A request. `cached`: tokens of its prompt that the prefix cache had."""

    name: str
    arrival: int
    length: int
    scheduled: int = -1
    first: int = -1  # when its first token was on the host
    last: int = -1
    tokens: int = 0
    cached: int = 0
    preemptions: int = 0


@dataclass
class Warmed:
    """A bucket of the warm-up: its new graphs, and its memory while it runs."""

    bucket: Bucket
    graphs: int = 0
    operators: int = 0
    workspace: int = 0


@dataclass
class Log:
    """All of it."""

    requests: dict[str, Served] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    warmed: dict[Bucket, Warmed] = field(default_factory=dict)
    used: Counter[Bucket] = field(default_factory=Counter)  # calls after the warm-up
    padding: dict[Bucket, list[int]] = field(default_factory=dict)  # tokens of requests, and padded ones
    guards: dict[str, Any] = field(default_factory=dict)  # of a run with small real weights
