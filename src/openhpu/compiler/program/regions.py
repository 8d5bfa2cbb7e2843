"""Regions of a graph: parts that repeat, such as the layers of a model. Each is compiled once and called often.

`divide` cuts a graph into pieces of consecutive nodes. Each piece is a graph of its own: slots that other pieces made
are its inputs, and slots that other pieces read are its results. Pieces that are the same graph are one region. So a
wrong guess where a layer begins costs time, and never a result.

What lies between the repetitions is a region that is called once, if it is large. A small piece has no code: the
operators of its nodes are called.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from openhpu.compiler.program.description import Argument, Description, NodeDescription, SlotDescription, tensors
from openhpu.compiler.program.sizes import Symbols

# A part that repeats less often, or has fewer operators, gains too little: a region costs a library of its own. The
# layer of a GPT has 10 operators in the forward pass and 20 in the backward pass.
LEAST_REPETITIONS = 4
LEAST_OPERATORS = 8
LEAST_SHARE = 2 / 3  # of the nodes that repeat
LEAST_COMPILED = 30  # operators of a piece that does not repeat, but has code of its own
NODES = -1  # instead of a region: the operators of the nodes are called
_MOST_PERIODS = 64  # that are tried, the most frequent distances first

# Operators that a library computes. Generated code before one is not fused with generated code behind it.
_LIBRARY = re.compile(r"mm|convolution|attention|linear|matmul")
_SYMBOL = re.compile(r"\bn\d+\b")


class Call(NamedTuple):
    """A call of a region: for each slot and number of the region that of the graph, and the graph's first node in it.

    Where `region` is NODES, the operators of the nodes up to the next call's are called, and `slots` are those that
    other calls use, too.
    """

    region: int
    slots: tuple[int, ...]
    scalars: tuple[int, ...]
    node: int


class Division(NamedTuple):
    """A graph as `calls` of `regions`, one after another."""

    regions: list[Description]
    calls: list[Call]


class _Piece(NamedTuple):
    nodes: list[NodeDescription]
    slots: list[int]  # the graph's, by slot of the piece
    scalars: list[int]
    fresh: tuple[bool, ...]  # by slot of the piece
    key: str  # equal keys: the same graph, but for what is needed afterwards


def divide(description: Description) -> Division | None:
    """The graph as calls of regions; None if too little of it repeats, or if it holds constants: these differ from one
    repetition to the next, and may be folded into each other."""
    if description.get("constants") or len(description["nodes"]) < LEAST_REPETITIONS * LEAST_OPERATORS:
        return None
    graph = _Graph(description)
    borders = graph.borders()
    if not borders:
        return None
    ends = [*borders[1:], len(graph.nodes)]
    pieces = [graph.piece(begin, end) for begin, end in zip(borders, ends, strict=True)]
    often = Counter(piece.key for piece in pieces)
    needed: dict[str, set[int]] = {}
    for piece, end in zip(pieces, ends, strict=True):
        needed.setdefault(piece.key, set()).update(graph.needed_after(piece, end))
    regions: dict[str, int] = {}
    descriptions: list[Description] = []
    calls = []
    for piece, begin, end in zip(pieces, borders, ends, strict=True):
        if often[piece.key] < LEAST_REPETITIONS and end - begin < LEAST_COMPILED:
            calls.append(Call(NODES, tuple(graph.shared(piece, begin, end)), (), begin))
            continue
        if piece.key not in regions:
            regions[piece.key] = len(regions)
            descriptions.append(graph.description_of(piece, sorted(needed[piece.key])))
        calls.append(Call(regions[piece.key], tuple(piece.slots), tuple(piece.scalars), begin))
    return Division(descriptions, calls)


class _Graph:
    def __init__(self, description: Description) -> None:
        self.description = description
        self.nodes = description["nodes"]
        self.live = set(description["live"])
        symbols = Symbols({name: symbol["hint"] for name, symbol in description.get("symbols", {}).items()})
        self.nbytes = [int(symbols.size(slot["nbytes"])) for slot in description["slots"]]
        # By slot: the nodes that touch it, in order.
        self.touches: list[list[int]] = [[] for _ in description["slots"]]
        self.slots_of: list[list[int]] = []  # by node, in order of appearance
        for number, node in enumerate(self.nodes):
            slots = list(dict.fromkeys([arg[1] for _, arg in tensors(node)] + _fresh(node)))
            self.slots_of.append(slots)
            for slot in slots:
                self.touches[slot].append(number)
        # By node: how many of the nodes before it a library computes.
        self.libraries_before = [0]
        for node in self.nodes:
            self.libraries_before.append(self.libraries_before[-1] + bool(_LIBRARY.search(node["op"])))

    def borders(self) -> list[int]:
        """The first node of each piece; empty if nothing repeats often enough."""
        repeated: dict[int, int] = {}  # begin: end
        tokens = self._tokens()
        waiting = [(0, len(self.nodes))]
        while waiting:
            begin, end = waiting.pop()
            found = _longest_run(tokens[begin:end])
            if found is None:
                continue
            first, period, length = begin + found[0], found[1], found[2]
            waiting += [(begin, first), (first + length, end)]
            repeated |= self._repetitions(first, period, length)
        if sum(end - begin for begin, end in repeated.items()) < LEAST_SHARE * len(self.nodes):
            return []
        borders = [0]
        for begin, end in sorted(repeated.items()):
            borders += [begin, end]
        return sorted(set(borders) - {len(self.nodes)})

    def _repetitions(self, first: int, period: int, length: int) -> dict[int, int]:
        """Where the repetitions begin and end in nodes that are equal to those a period before. They begin where the
        border costs least fusion. Without an operator of a library all of them are one loop: they stay whole."""
        if self.libraries_before[first + period] == self.libraries_before[first]:
            return {}
        shifts = range(length % period + 1)
        middle = first + length // period // 2 * period
        shift = min(shifts, key=lambda shift: (*self._cost(middle + shift, period), shift))
        begins = [first + shift + k * period for k in range((length - shift) // period)]
        keys = [self.piece(begin, begin + period).key for begin in begins]
        often = Counter(keys)
        kept = [begin for begin, key in zip(begins, keys, strict=True) if often[key] >= LEAST_REPETITIONS]
        return {begin: begin + period for begin in kept}

    def _cost(self, border: int, period: int) -> tuple[int, int]:
        """Bytes that generated code would have passed on within a loop, and those of all that crosses the border."""
        fused = crossing = 0
        around = range(max(0, border - period), min(len(self.nodes), border + period))
        for slot in {slot for node in around for slot in self.slots_of[node]}:
            touches = self.touches[slot]
            next_touch = bisect.bisect_left(touches, border)
            if next_touch in (0, len(touches)):
                continue
            before, after = touches[next_touch - 1], touches[next_touch]
            crossing += self.nbytes[slot]
            if self.libraries_before[after + 1] == self.libraries_before[before]:
                fused += self.nbytes[slot]
        return fused, crossing

    def _tokens(self) -> torch.Tensor:
        """By node a number; equal numbers mean the same call on operands of the same geometry."""
        numbers: dict[str, int] = {}
        slots = self.description["slots"]

        def entry(value: tuple[Any, ...]) -> tuple[Any, ...]:
            match value[0]:
                case "tensor" | "fresh":
                    return (value[0], slots[value[1]]["nbytes"], *value[2:])
                case "scalar" | "cpu_scalar":
                    return (value[0], self._number(value[1]), *value[2:])
                case "list":
                    return ("list", [entry(item) for item in value[1]])
            return value

        found = []
        for node in self.nodes:
            args, outputs = map(entry, node["args"]), map(entry, node["outputs"])
            token = repr((node["op"], list(args), list(outputs), node.get("widened")))
            found.append(numbers.setdefault(token, len(numbers)))
        return torch.tensor(found, dtype=torch.int64)

    def _number(self, index: int) -> Any:
        """A number as far as it counts: one that varies by its type."""
        value = self.description["scalars"][index]
        return (type(value).__name__,) if self.description["variable"][index] else value

    def piece(self, begin: int, end: int) -> _Piece:
        """These nodes, with slots and numbers counted in their order of appearance."""
        slots: dict[int, int] = {}
        scalars: dict[int, int] = {}

        def entry(value: tuple[Any, ...]) -> tuple[Any, ...]:
            match value[0]:
                case "tensor" | "fresh":
                    return (value[0], slots.setdefault(value[1], len(slots)), *value[2:])
                case "scalar" | "cpu_scalar":
                    return (value[0], scalars.setdefault(value[1], len(scalars)), *value[2:])
                case "list":
                    return ("list", [entry(item) for item in value[1]])
            return value

        nodes: list[NodeDescription] = []
        for node in self.nodes[begin:end]:
            args: list[Argument] = [entry(arg) for arg in node["args"]]
            nodes.append({**node, "args": args, "outputs": [entry(out) for out in node["outputs"]]})
        described = self.description["slots"]
        fresh = tuple(described[slot]["kind"] == "fresh" and self.touches[slot][0] >= begin for slot in slots)
        key = repr(
            (
                [(node["op"], node["args"], node["outputs"], node.get("widened")) for node in nodes],
                fresh,
                [described[slot]["nbytes"] for slot in slots],
                [self._number(index) for index in scalars],
            )
        )
        return _Piece(nodes, list(slots), list(scalars), fresh, key)

    def needed_after(self, piece: _Piece, end: int) -> Iterator[int]:
        """The slots of the piece that it makes and that somebody reads behind it."""
        for index, slot in enumerate(piece.slots):
            if piece.fresh[index] and (slot in self.live or self.touches[slot][-1] >= end):
                yield index

    def shared(self, piece: _Piece, begin: int, end: int) -> Iterator[int]:
        """The graph's slots that are used within the piece and also before or behind it."""
        for slot in piece.slots:
            if self.touches[slot][0] < begin or self.touches[slot][-1] >= end:
                yield slot

    def description_of(self, piece: _Piece, live: list[int]) -> Description:
        """The piece as a graph."""
        whole = self.description
        slots: list[SlotDescription] = [
            {"kind": "fresh" if fresh else "input", "nbytes": whole["slots"][slot]["nbytes"]}
            for slot, fresh in zip(piece.slots, piece.fresh, strict=True)
        ]
        sites = {node["site"] for node in piece.nodes}
        used = set(_SYMBOL.findall(piece.key))
        out: Description = {
            **whole,
            "slots": slots,
            "nodes": piece.nodes,
            "live": live,
            "scalars": [whole["scalars"][index] for index in piece.scalars],
            "variable": [whole["variable"][index] for index in piece.scalars],
            "sites": {site: line for site, line in whole.get("sites", {}).items() if site in sites},
        }
        if "symbols" in whole:
            out["symbols"] = {name: symbol for name, symbol in whole["symbols"].items() if name in used}
        return out


def _fresh(node: NodeDescription) -> list[int]:
    return [out[1] for out in node["outputs"] if out[0] == "fresh"]


def _longest_run(tokens: torch.Tensor) -> tuple[int, int, int] | None:
    """(begin, period, length) of the nodes that repeat with a period and save most; None if there are not enough."""
    best, most = None, 0
    for period in _periods(tokens.tolist()):
        if period * LEAST_REPETITIONS > len(tokens):
            continue
        different = (tokens[:-period] != tokens[period:]).nonzero().flatten()
        edges = torch.cat([torch.tensor([-1]), different, torch.tensor([len(tokens) - period])])
        lengths = edges.diff() - 1
        where = int(lengths.argmax())
        equal = int(lengths[where])  # nodes that are equal to those a period later
        if (equal + period) // period >= LEAST_REPETITIONS and equal > most:
            best, most = (int(edges[where]) + 1, period, equal + period), equal
    return best


def _periods(tokens: list[int]) -> list[int]:
    """Distances between equal nodes, the most frequent first; small ones times what makes a region of them."""
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for position, token in enumerate(tokens):
        if token in last:
            distance = position - last[token]
            distances[distance * -(-LEAST_OPERATORS // distance)] += 1
        last[token] = position
    return [period for period, _ in distances.most_common(_MOST_PERIODS)]
