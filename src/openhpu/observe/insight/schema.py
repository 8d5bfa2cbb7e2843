"""The document of a process: what the report has of it, and what `openhpu run --json` prints. It is written as JSON.

Rows are counted by line of the script. A row without a line has None for `file` and `line`. Times end in their unit.
"""

from typing import Any, Literal, NotRequired, TypedDict

FORMAT = 1


class Process(TypedDict):
    """The process. Of a script that opened no device only `command` is known."""

    pid: int | None
    parent: int | None
    rank: int | None
    command: str
    mode: str | None  # eager or lazy
    generation: str | None
    started: float | None  # seconds since 1970
    seconds: float | None
    openhpu: str | None  # versions
    torch: str | None


class StepTimes(TypedDict):
    """The steps of the script. The times are there from the second step on; shares are from 0 to 1."""

    count: int
    first_ms: NotRequired[float]
    median_ms: NotRequired[float]
    fastest_ms: NotRequired[float]
    slowest_ms: NotRequired[float]
    device_bound_share: NotRequired[float]
    host_bound_share: NotRequired[float]
    device_busy_share: NotRequired[float]
    host_waiting_share: NotRequired[float]


class Steps(StepTimes):
    """`counted_by`: optimizer or mark_step."""

    counted_by: str | None


class Times(TypedDict):
    """Microseconds since the process began."""

    steps_us: list[int]  # ends
    device_us: list[list[int]]  # begin and end of a span in which the device was busy
    compilations_us: list[list[Any]]  # begin, end and name of the recipe


class Place(TypedDict):
    """A line of the script."""

    file: str | None
    line: int | None


class CountedRow(Place):
    """What happened at a line, and how often."""

    count: int


class SeenGraph(Place):
    """A graph that begins at a line."""

    operators: int


class Graphs(TypedDict):
    """Graphs of lazy mode. All but `seen_once` are numbers of graphs."""

    distinct: int
    recorded: int
    as_recipes: int
    node_by_node: int
    cut: int
    compiling: int
    seen_once: list[SeenGraph]


class Change(TypedDict):
    """Why a graph was compiled again: its difference from an earlier graph."""

    cause: str
    op: str
    argument: str
    dimension: int | None
    before: str
    after: list[str]
    origin: NotRequired[str]  # how the size depends on values: from the operator, or after it
    origin_op: NotRequired[str]
    origin_file: NotRequired[str | None]
    origin_line: NotRequired[int | None]


class Recompilation(Change, CountedRow):
    """A change, at the line where the graph begins."""


class Phase(TypedDict):
    """A phase of the script."""

    name: str
    steps: int
    graphs: int  # that were new
    recipes: int  # that were compiled
    bytes: int  # in use at its end


class LateGraph(Place):
    """A graph that was new after the warm-up."""

    phase: str
    step: int
    cause: Change | None


class ScriptPhases(TypedDict):
    """The phases in order."""

    phases: list[Phase]
    later: list[LateGraph]


class Capture(Place):
    """An HPU graph."""

    owner: str  # the function; empty: a capture by hand
    inputs: dict[str, str]  # arguments by their place in the call
    operators: int
    bytes: int
    ms: float
    replays: int
    phase: str
    differs: list[str]  # from the nearest earlier graph of the same function


class Check(CountedRow):
    """A replay that was different, or that could not be checked."""

    owner: str
    op: str
    text: str


class CapturedGraphs(TypedDict):
    """HPU graphs, and the checks of their replays."""

    captures: list[Capture]
    captures_later: list[Capture]  # those after the warm-up
    captures_more: int  # that have no row
    graphs_checked: int
    graphs_compared: list[int]  # of how many graphs a replay was checked, and of how many one was to be
    graph_differences: list[Check]
    graphs_unchecked: list[Check]


class SeenRecipe(TypedDict):
    """A compiled graph. `ops`: how often it has each operator; empty: it was made before anybody listened."""

    name: str
    ops: dict[str, int]
    from_disk: bool
    compilations: int
    ms: float
    runs: int


class Recipe(SeenRecipe):
    """With the number of its operators."""

    operators: int


class Fallback(CountedRow):
    """An operator that ran on the host."""

    op: str
    dtype: str


class OutOfRange(CountedRow):
    """An operator whose indices were out of range. `padding`: how many were -1."""

    op: str
    padding: int


class Operator(CountedRow):
    """An operator, and how many of its elements or operands."""

    op: str


class Difference(CountedRow):
    """What a Gaudi refuses or computes otherwise."""

    kind: str


class Wait(CountedRow):
    """An operator in which the host waited. `phase`: the one that the script began, if it did."""

    op: str
    wait_ns: int
    phase: NotRequired[str]


class NotRun(CountedRow):
    """What PT_COMPILE_ONLY_MODE left out. `what`: write, read or kept (see `openhpu.observe.events`)."""

    what: str
    op: str
    bytes: int


class BlockingRead(Wait):
    """A read of the device's memory."""

    bytes: int


class KindOfWait(Wait):
    """`kind`: shape (for sizes that depend on values), or one that a Gaudi does not have."""

    kind: str


class Collective(CountedRow):
    """The collectives of a line."""

    op: str
    bytes: int
    wait_ns: int


class SharedCollective(Collective):
    """Those of all ranks. `skew_ns`: how much less the rank waited that waited least, for which the others waited."""

    rank: int | None
    skew_ns: int
    slowest: int | None
    ranks: int


class UserOperator(TypedDict):
    """An operator that a C++ library registered. `kernel`: where its kernel comes from."""

    schema: str
    guid: str
    kernel: str
    python: bool  # the kernel is a Python function
    calls: int


class Memory(TypedDict):
    """Memory of the devices. The line is the one that took the last of the peak."""

    peak_bytes: int
    peak_file: str | None
    peak_line: int | None
    peak_growth_bytes: int
    limit_bytes: int
    in_use_bytes: int
    over_time: list[list[int]]  # microseconds since the process began, bytes


class Error(Place):
    """An error of a kernel."""

    op: str
    message: str


class Document(CapturedGraphs):
    """All of a process."""

    format: int
    complete: bool  # written when the process ended
    running: NotRequired[bool]
    process: Process
    steps: Steps
    timeline: Times
    graphs: Graphs
    phases: ScriptPhases
    recipes: list[Recipe]
    recompilations: list[Recompilation]
    fallbacks: list[Fallback]
    indices_out_of_range: list[OutOfRange]
    int64_overflows: list[Operator]
    differences: list[Difference]
    moved_operands: list[Operator]
    not_run: list[NotRun]
    blocking_reads: list[BlockingRead]
    shape_waits: list[KindOfWait]
    own_waits: list[KindOfWait]
    collectives: list[Collective]
    user_operators: list[UserOperator]
    memory: Memory
    errors: list[Error]
    counters: dict[str, int]
    sections: list[dict[str, Any]]  # see `openhpu.observe.added_sections`


# The rows that are counted by event. `waits` become `shape_waits` and `own_waits`.
Part = Literal[
    "fallbacks",
    "indices_out_of_range",
    "int64_overflows",
    "differences",
    "moved_operands",
    "not_run",
    "blocking_reads",
    "waits",
]
