"""A prediction: the time of a step, what bounds it, whether it fits; and its text."""

import dataclasses
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Hashable

from openhpu_predict import advice, cost, network
from openhpu_predict.advice import time_text
from openhpu_predict.cost import Parameters, Timeline
from openhpu_predict.devices import DATA, Device, load
from openhpu_predict.errors import PredictError
from openhpu_predict.memory import Memory, memory
from openhpu_predict.operators import Kind
from openhpu_predict.recording import Node, Recording, Site, site_text
from openhpu_predict.warmup import Warmup, warmup


@dataclasses.dataclass
class Share:
    """A line or a layer: its seconds in a step, their part of all kernels' time, and its work on the MME."""

    name: str
    seconds: float
    part: float
    bound: str
    mme_utilisation: float


@dataclasses.dataclass
class Prediction:
    """Times in seconds, memory in bytes. `str` is the report."""

    device: Device
    nodes: list[Node]  # of the step
    seconds: float
    timeline: Timeline
    memory: Memory
    lines: list[Share]
    layers: list[Share]
    unknown: dict[str, float]  # operators without a cost, and their part of the kernels' time
    cut_seconds: float  # what the reads cost
    cuts: dict[Site | None, float]  # what those of a line cost, of the first lines
    notes: list[str]
    mode: str
    cards: int = 1
    samples: float | None = None  # of a step, of all cards
    tokens: float | None = None
    advice: list[str] = dataclasses.field(default_factory=list)
    plans: list[str] = dataclasses.field(default_factory=list)  # memory by ZeRO stage and tensor parallel degree
    warmup: Warmup | None = None  # None in eager mode
    warnings: list[str] = dataclasses.field(default_factory=list)  # what a reader has to know before the numbers

    @property
    def title(self) -> str:
        """Gaudi 3, predicted."""
        return re.sub(r"^gaudi(\d)$", r"Gaudi \1", self.device.name) + ", predicted"

    def __str__(self) -> str:
        timeline, device = self.timeline, self.device
        rows = [
            f"{device.name}, predicted, {self.mode}: {time_text(self.seconds)} for a step, bound by {timeline.bound}",
            f"the error of this model on published rows: {model_error(kind_of(self.nodes), device)}",
            *self.warnings,
        ]
        for what, number in (("samples", self.samples), ("tokens", self.tokens)):
            if number is not None and self.seconds:
                rows.append(f"{number / self.seconds:,.0f} {what}/s" + (f" on {self.cards} cards" * (self.cards > 1)))
        rows.append(
            f"utilisation: MME {timeline.mme_utilisation:.0%} of its peak, HBM {timeline.hbm_utilisation:.0%}; "
            f"{len(timeline.kernels)} kernels, {timeline.graphs} launches"
        )
        rows += self.memory.text(device.hbm_bytes)
        rows += self.plans
        for title, shares in (("lines", self.lines), ("layers", self.layers)):
            rows.append(f"the {title} that cost most:")
            rows += [
                f"  {one.part:5.1%}  {time_text(one.seconds):>10}  {one.bound:<7}  MME {one.mme_utilisation:4.0%}"
                f"  {one.name}"
                for one in shares[:10]
            ]
        if timeline.read_lines:
            count = sum(timeline.read_lines.values())
            rows.append(f"reads cut the step {count} times and cost {time_text(self.cut_seconds)} in all:")
            rows += [
                f"  {number} x {site_text(site)}" + (f", {time_text(self.cuts[site])}" if site in self.cuts else "")
                for site, number in timeline.read_lines.items()
            ]
        return "\n".join([*rows, *self.closing()])

    def closing(self) -> list[str]:
        """Operators without a cost, warm-up, what would help, and notes."""
        rows = [
            f"no cost is known for {op}: counted as bound by memory, {part:.1%} of the time could change"
            for op, part in self.unknown.items()
        ]
        if self.warmup is not None:
            rows.append(str(self.warmup))
        return [*rows, *self.advice, *self.notes]


def price(
    recording: Recording, device: Device, mode: str = "graph", cards: int = 1, parameters: Parameters | None = None
) -> Prediction:
    """The prediction for the last step of a recording.

    `mode`: "graph" (graphs as they were cut) or "eager" (each operator is launched). `cards`: data parallel, unless
    the script has a process group, whose cards count. Raises PredictError.
    """
    _check(recording, device, mode, cards)
    parameters = parameters or Parameters.fitted()
    begin, end = recording.last_step()
    nodes = recording.nodes[begin:end]
    eager = mode == "eager"
    if not nodes:
        raise PredictError("nothing ran on the device; expected at least one operator on a tensor")
    kernels = cost.fuse(nodes, recording.blocks, begin, eager)
    timeline = cost.schedule(nodes, kernels, device, parameters, eager)
    seconds = timeline.seconds

    def again(nodes: list[Node], eager: bool = eager) -> Timeline:
        return cost.schedule(nodes, cost.fuse(nodes, recording.blocks, begin, eager), device, parameters, eager)

    cut_seconds, cuts = advice.cuts(timeline, nodes, again)
    helps = advice.what_helps(timeline, nodes, again, cut_seconds, eager)
    if cards > 1 and not recording.cards:
        backward = sum(kernel.seconds for kernel in kernels if nodes[kernel.nodes[0]].backward)
        seconds += max(network.seconds("all_reduce", recording.gradient_bytes, range(cards), device) - backward, 0.0)
    needed = memory(recording, device.hbm_bytes)
    return Prediction(
        device=device,
        nodes=nodes,
        seconds=seconds,
        timeline=timeline,
        memory=needed,
        lines=_shares(timeline, nodes, lambda node: node.site, site_text),
        layers=_shares(timeline, nodes, lambda node: node.layer or "outside of layers", str),
        unknown=_unknown(timeline, nodes),
        cut_seconds=cut_seconds,
        cuts=cuts,
        notes=list(recording.notes),
        mode=mode,
        cards=recording.cards or cards,
        advice=helps,
        plans=_plans(recording, needed, device, cards),
        warmup=None if eager else warmup(recording, device),
        warnings=list(recording.warnings),
    )


def _check(recording: Recording, device: Device, mode: str, cards: int) -> None:
    """Raises PredictError for a mode or a number of cards that there is not."""
    if mode not in ("graph", "eager"):
        raise PredictError(f'mode is {mode!r}; expected "graph" or "eager"')
    if cards > 1:
        device.require_links()
    node = int(device.node_cards)
    if cards < 1 or (cards > node and cards % node):
        raise PredictError(f"cards is {cards}; expected 1 to {node}, or whole nodes of {node}")
    if recording.cards and cards not in (1, recording.cards):
        raise PredictError(f"cards is {cards}; expected {recording.cards}, as many as the script's process group has")


def _plans(recording: Recording, needed: Memory, device: Device, cards: int) -> list[str]:
    """How the memory could be shared among cards, where one is too small or several are there."""
    if recording.cards or not (needed.short or cards > 1):
        return []
    capacities = {one.name: one.hbm_bytes for one in (load("gaudi2"), load("gaudi3"))}
    return needed.plans(max(cards, int(device.node_cards)), capacities)


# The kinds of steps for which the error on published rows is known. "Grouped heads": several heads of queries share one
# of keys, so that the products of a decode have a few rows, at most this many.
TRAINING, PREFILL, DECODE, GROUPED = "training", "prefill", "decode", "decode with grouped heads"
_GROUP = 16


def kind_of(nodes: list[Node]) -> str | None:
    """The kind of a step, by which its error is quoted. None: no kind of which rows are published."""
    if any(node.backward for node in nodes):
        return TRAINING
    rows = [product[1] for node in nodes for product in node.products if product[0] > 1]
    if not rows:
        return None
    if max(rows) > _GROUP:
        return PREFILL
    return GROUPED if max(rows) > 1 else DECODE


def model_error(kind: str | None, device: Device) -> str:
    """The error on published rows of a step's kind (`kind_of`), as `openhpu_predict.published` found it.

    Rows of the same device count if there are any, else those of all devices; a step of no known kind has the error of
    all rows. Rows that were not used for the fit count if there are any.
    """
    path = DATA / "errors.toml"
    if not path.exists():
        return "not known"
    found = tomllib.loads(path.read_text())["kind"]
    wanted = ((kind, device.name), (kind, ""), ("all", ""))
    one = next(row for name, of in wanted for row in found if (row["name"], row["device"]) == (name, of))
    of = f" ({one['name']}{' on ' + one['device'] if one['device'] else ''})" if one["name"] != "all" else ""
    fitted = "that were fitted" if one["fitted"] else "that were not fitted"
    return f"median {one['median']:.0%}, worst {one['worst']:.0%}, of {one['rows']} rows{of} {fitted}"


def _shares(
    timeline: Timeline, nodes: list[Node], key: Callable[[Node], Hashable], text: Callable[..., str]
) -> list[Share]:
    """The kernels' time by lines or layers, the longest first. A kernel counts for its first node."""
    seconds: defaultdict[Hashable, float] = defaultdict(float)
    peaks: defaultdict[Hashable, float] = defaultdict(float)
    bounds: defaultdict[Hashable, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for kernel in timeline.kernels:
        place = key(nodes[kernel.nodes[0]])
        seconds[place] += kernel.seconds
        peaks[place] += kernel.mme_seconds
        bounds[place][kernel.bound] += kernel.seconds
    total = sum(seconds.values()) or 1.0
    return [
        Share(
            text(place), spent, spent / total, max(bounds[place], key=bounds[place].__getitem__), peaks[place] / spent
        )
        for place, spent in sorted(seconds.items(), key=lambda one: -one[1])
    ]


def _unknown(timeline: Timeline, nodes: list[Node]) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    total = sum(kernel.seconds for kernel in timeline.kernels) or 1.0
    for kernel in timeline.kernels:
        node = nodes[kernel.nodes[0]]
        if node.kind is Kind.UNKNOWN:
            found[node.op] += kernel.seconds / total
    return dict(found)
