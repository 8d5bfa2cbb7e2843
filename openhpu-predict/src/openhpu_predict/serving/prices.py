"""What the calls at the border cost: time on the device, its engines and layers, graphs, and memory."""

import dataclasses
import hashlib
import re
from collections import defaultdict
from typing import Any

from openhpu_predict import warmup
from openhpu_predict.cost import Parameters, fuse, schedule
from openhpu_predict.devices import Device
from openhpu_predict.memory import memory
from openhpu_predict.operators import Kind
from openhpu_predict.recording import Recording

GRAPHS, REGIONS, EAGER = "HPU graphs", "torch.compile", "eager"


Key = tuple[Any, ...]


@dataclasses.dataclass
class Price:
    """Of a call at the border. Times in seconds, memory in bytes.

    `host` is what the host needs to launch it. `workspace` is the most that is alive at once of what the call makes.
    `graphs` are what a device would compile for it, each with the number of its operators.
    """

    what: str  # forward, logits, sampler or copies
    seconds: float
    host: float
    engines: dict[str, float]
    layers: dict[str, float]
    unknown: float  # the share of the time of operators without a cost of their own
    workspace: int
    graphs: list[tuple[bytes, int]]
    result: Any = None  # fake, of the right shape
    warm: bool = False  # its graphs were made in the warm-up


class Prices:
    """The prices of calls, by their key: what is called, with shapes and types of all that it is given.

    `how`: how the plugin runs the model. `memory`: bytes of the card that the plugin sees.
    """

    def __init__(self, device: Device, memory: int, how: str) -> None:
        self.device, self.memory, self.how = device, memory, how
        self.known: dict[Key, Price] = {}
        self._compiled: set[bytes] = set()
        self._parameters = Parameters.fitted()

    def add(self, key: Key, what: str, recording: Recording, result: Any) -> Price:
        """The price of a call that was recorded. Cuts of the recording are borders of graphs."""
        nodes = recording.nodes
        eager = self.how == EAGER
        graphs = [] if eager else _graphs(recording)
        if self.how == GRAPHS:  # a replay launches all of them at once
            for node in nodes:
                node.cut = ""
        timeline = schedule(nodes, fuse(nodes, recording.blocks, eager=eager), self.device, self._parameters, eager)
        engines: defaultdict[str, float] = defaultdict(float)
        layers: defaultdict[str, float] = defaultdict(float)
        total = unknown = 0.0
        for kernel in timeline.kernels:
            node = nodes[kernel.nodes[0]]
            engines[kernel.bound] += kernel.seconds
            layers[_kind_of_layer(node.layer) or what] += kernel.seconds
            total += kernel.seconds
            unknown += kernel.seconds * (node.kind is Kind.UNKNOWN)
        parts = memory(recording, self.device.hbm_bytes).parts
        launch = self.device.eager_launch if eager else self.device.graph_launch
        price = Price(
            what,
            timeline.seconds,
            timeline.graphs * launch,
            dict(engines),
            dict(layers),
            unknown / total if total else 0.0,
            sum(size for name, size in parts.items() if name not in ("weights", "inputs")),
            graphs,
            result,
        )
        self.known[key] = price
        return price

    def compiled(self, price: Price) -> tuple[int, int]:
        """Graphs of a call that nothing before it had, with their operators; the device has them from now on."""
        new = {graph: operators for graph, operators in price.graphs if graph not in self._compiled}
        self._compiled.update(new)
        return len(new), sum(new.values())


def _graphs(recording: Recording) -> list[tuple[bytes, int]]:
    """The graphs of a recording. Two are the same if a device would compile one."""
    found: list[tuple[bytes, int]] = []
    part: list[Any] = []
    for number, node in enumerate(recording.nodes, 1):
        part.append(warmup.same(node))
        if node.cut or number == len(recording.nodes):
            found.append((hashlib.blake2b(repr(part).encode(), digest_size=16).digest(), len(part)))
            part = []
    return found


def _kind_of_layer(name: str) -> str:
    """`layers.mlp.down_proj` of `LlamaForCausalLM.model.layers.3.mlp.down_proj`."""
    parts = re.sub(r"\.\d+(?=\.|$)", "", name).split(".")
    return ".".join(parts[-3:] if len(parts) > 3 else parts[1:] or parts)
