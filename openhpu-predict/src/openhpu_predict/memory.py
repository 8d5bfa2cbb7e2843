"""The memory of a step by phase and by what it is for, the first line at which a device has too little, and what helps.

Phases are forward, backward (from the first operator of a backward pass to the last) and optimizer (what follows).
"""

import dataclasses
import re
from bisect import bisect_right
from collections import Counter, defaultdict

from openhpu_predict.operators import Kind
from openhpu_predict.recording import Block, Recording, Site, site_text

PHASES = ("forward", "backward", "optimizer")
_FIRST_ZERO = {"optimizer": 1, "gradients": 2, "weights": 3}  # the first stage of ZeRO that divides it


@dataclasses.dataclass
class Memory:
    """Bytes, as the device's allocator counts them. A Gaudi's own workspace and code are not in it.

    Parts: weights, gradients, optimizer, activations (kept from the forward pass for the backward pass), collectives
    (their buffers), inputs, and workspace (results that one phase makes and drops).
    """

    peak: int
    parts: dict[str, int]  # at the peak
    peak_site: Site | None
    over_site: Site | None = None  # the first line that needs more than the device has
    short: int = 0  # what is missing at the peak
    phases: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)  # the parts at each phase's peak
    layers: dict[str, int] = dataclasses.field(default_factory=dict)  # at the peak, what computing it again would free
    largest_layer: int = 0  # weights, that ZeRO-3 has whole

    def recomputation(self, wanted: float = 0) -> tuple[list[str], int]:
        """The layers to compute again in the backward pass, and the bytes that this saves: `wanted` or the most.

        While a layer is computed again, its activations are there.
        """
        chosen: list[str] = []
        saved = largest = 0
        for name, size in sorted(self.layers.items(), key=lambda one: -one[1]):
            if wanted and saved - largest >= wanted:
                break
            chosen.append(name)
            saved += size
            largest = max(largest, size)
        return chosen, saved - largest

    def divided(self, zero: int, data: int, tensor: int = 1) -> int:
        """About the peak with a stage of ZeRO (0 to 3) over `data` cards, and with tensor parallelism.

        Activations count whole: how tensor parallelism divides them is known only of a script that does it.
        """
        whole = self.largest_layer // tensor * (zero > 1) if data > 1 else 0  # its gradients or weights

        def of_a_card(part: str, size: int) -> int:
            if part not in _FIRST_ZERO:
                return size
            return size // (tensor * data) if zero >= _FIRST_ZERO[part] else size // tensor

        phases = (sum(of_a_card(part, size) for part, size in parts.items()) for parts in self.phases.values())
        return max(phases) + whole

    def text(self, capacity: float) -> list[str]:
        """Lines of a report; `capacity` is the device's memory in bytes."""
        peak = f"memory: peak {gib(self.peak)} of {gib(capacity)} ({_list(self.parts)})"
        rows = [f"{peak} at {site_text(self.peak_site)}"]
        if len(self.phases) > 1:
            rows += [f"  {name}: {gib(sum(parts.values()))} ({_list(parts)})" for name, parts in self.phases.items()]
        if self.short:
            row = f"does not fit: first at {site_text(self.over_site)}, short by {gib(self.short)} at the peak"
            layers, saved = self.recomputation(self.short)
            if saved > 0:
                names = ", ".join(layers[:4]) + ", ..." * (len(layers) > 4)
                row += f"; recomputation of {len(layers)} layers ({names}) would save {gib(saved)}"
            rows.append(row)
        return rows

    def plans(self, cards: int, capacities: dict[str, float]) -> list[str]:
        """A table of the memory by ZeRO stage and tensor parallel degree, and the first of the devices that it fits."""
        rows = [f"memory on {cards} cards, about, with ZeRO 0, 1, 2, 3 ({', '.join(capacities)}: where it fits):"]
        for tensor in (1, 2, 4, 8):
            if cards % tensor == 0:
                sizes = [self.divided(zero, cards // tensor, tensor) for zero in range(4)]
                fits = [next((name for name, has in capacities.items() if size <= has), "none") for size in sizes]
                cells = "  ".join(f"{gib(size)} {name}" for size, name in zip(sizes, fits, strict=True))
                rows.append(f"  tensor parallel {tensor}: {cells}")
        return rows


def memory(recording: Recording, capacity: float) -> Memory:
    """The peak over all recorded steps. `capacity`: the device's memory in bytes."""
    phase = _phases(recording)
    collective = {
        key for node in recording.nodes if node.kind is Kind.COLLECTIVE for key in (*node.reads, *node.writes)
    }
    parts = [
        block.category or ("collectives" if number in collective else _part(block, phase))
        for number, block in enumerate(recording.blocks)
    ]
    changes = _changes(recording, parts)
    live: Counter[str] = Counter()
    peaks: dict[str, tuple[int, int, dict[str, int]]] = {}
    over: int | None = None
    for number in sorted(changes):
        for part, size in changes[number].items():
            live[part] += size
        now = sum(live.values())
        if now > peaks.get(phase[number], (0, 0, {}))[0]:
            peaks[phase[number]] = now, number, {part: size for part, size in live.items() if size}
        if over is None and now > capacity:
            over = number
    peak, at, most = max(peaks.values(), key=lambda one: one[0], default=(0, 0, {}))
    by_phase = {name: peaks[name][2] for name in PHASES if name in peaks}
    found = Memory(peak, most, _site(recording, at), phases=by_phase)
    _layers(recording, parts, phase, at, found)
    if over is not None:
        found.over_site = _site(recording, over)
        found.short = int(peak - capacity)
    return found


def _changes(recording: Recording, parts: list[str]) -> dict[int, Counter[str]]:
    """The bytes that come and go at each node, by their part."""
    changes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for part, block in zip(parts, recording.blocks, strict=True):
        changes[max(block.born, 0)][part] += block.bytes
        if block.died is not None:
            changes[max(block.died, 0)][part] -= block.bytes
    return changes


def _phases(recording: Recording) -> list[str]:
    """The phase of each node, and of what follows the last."""
    found: list[str] = []
    count = len(recording.nodes)
    for end in dict.fromkeys([*recording.steps, count]):
        begin = len(found)
        back = [number for number in range(begin, end) if recording.nodes[number].backward] or [end]
        found += ["forward"] * (back[0] - begin)
        found += ["backward"] * (min(back[-1] + 1, end) - back[0])
        found += ["optimizer"] * (end - len(found))
    return [*found, found[-1] if found else "forward"]


def _part(block: Block, phase: list[str]) -> str:
    if block.born < 0:
        return "inputs"
    end = len(phase) - 1
    begin = min(block.born, end)
    died = end if block.died is None else min(block.died, end)
    return "activations" if phase[begin] == "forward" and phase[died] != "forward" else "workspace"


def _layers(recording: Recording, parts: list[str], phase: list[str], at: int, found: Memory) -> None:
    """Set what each layer keeps at the peak for its own backward pass, and the size of the largest layer's weights.

    A layer is a module that is in a list. What another layer reads is kept in any case.
    """
    nodes, blocks = recording.nodes, recording.blocks
    begin = ([0, *recording.steps])[bisect_right(recording.steps, at)]
    readers: defaultdict[int, set[str]] = defaultdict(set)
    weights: defaultdict[str, set[int]] = defaultdict(set)
    for number in range(begin, min(at + 1, len(nodes))):
        layer = _layer(nodes[number].layer)
        for key in nodes[number].reads:
            if phase[number] == "forward":
                readers[key].add(layer)
            if blocks[key].category == "weights" and layer:
                weights[layer].add(key)
    sizes: Counter[str] = Counter()
    for key, block in enumerate(blocks):
        if parts[key] != "activations" or block.born > at or (block.died is not None and block.died <= at):
            continue
        layer = _layer(nodes[block.born].layer)
        if layer and readers[key] <= {layer}:
            sizes[layer] += block.bytes
    found.layers = dict(sizes)
    found.largest_layer = max((sum(blocks[key].bytes for key in keys) for keys in weights.values()), default=0)


def _layer(name: str) -> str:
    """`Llama.layers.3` of `Llama.layers.3.qkv`; "" outside of a list of modules."""
    found = re.match(r".*?\.\d+(?=\.|$)", name)
    return found.group() if found else ""


def _site(recording: Recording, number: int) -> Site | None:
    nodes = recording.nodes
    return nodes[min(number, len(nodes) - 1)].site if nodes else None


def _list(parts: dict[str, int]) -> str:
    return ", ".join(f"{name} {gib(size)}" for name, size in sorted(parts.items(), key=lambda one: -one[1]))


def gib(size: float) -> str:
    """For people."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
