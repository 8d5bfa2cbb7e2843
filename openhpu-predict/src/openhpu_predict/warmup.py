"""The graphs that a device would compile, and how long that would take."""

import dataclasses
from collections.abc import Hashable

from openhpu_predict.devices import Device
from openhpu_predict.recording import Node, Recording


@dataclasses.dataclass
class Warmup:
    """`graphs` that differ, of all recorded steps; `operators` in them; `seconds` to compile them."""

    graphs: int
    operators: int
    seconds: float
    per_operator: float
    counted: bool  # by the device's cache of graphs; else by comparing the recorded operators

    def __str__(self) -> str:
        how = "as the device's cache counted them" if self.counted else "by their operators and sizes"
        return (
            f"compilation: {self.graphs} graphs, {how}, of {self.operators:,} operators; about {self.seconds:.1f} s at "
            f"{self.per_operator * 1e3:g} ms for each (compile_per_operator)"
        )


def warmup(recording: Recording, device: Device) -> Warmup:
    """What is compiled before a graph runs for the first time: graphs with other operators or sizes."""
    seen: dict[Hashable, int] = {}
    part: list[Node] = []
    for number, node in enumerate(recording.nodes, 1):
        part.append(node)
        if node.cut or number == len(recording.nodes):
            seen.setdefault(tuple(same(one) for one in part), len(part))
            part = []
    graphs = recording.graphs_new if recording.graphs_new is not None else len(seen)
    operators = sum(seen.values()) * graphs // max(len(seen), 1)  # the cache may tell more or fewer graphs apart
    each = device.compile_per_operator
    return Warmup(graphs, operators, operators * each, each, recording.graphs_new is not None)


def same(node: Node) -> Hashable:
    """Two nodes with the same are compiled alike."""
    sizes = tuple(node.reads.values()), tuple(node.writes.values())
    return node.op, node.dtype, node.elements, tuple(node.products), node.access, tuple(node.ranks), sizes
