"""first: the first minute. How long it takes until every graph has its recipe, and where that time goes."""

import math
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import habana_frameworks.torch.core as htcore
import openhpu
from benchmarks import children, models
from benchmarks.children import probe
from benchmarks.graphs import captured
from benchmarks.models import CHARACTERS, Workload
from benchmarks.parts import part
from benchmarks.report import Table, table_of
from benchmarks.timing import ROUNDS_TO_QUOTE, Peer, Spread, Steps, in_turns
from examples.gpt_chars import GPT
from openhpu import events

_RECIPES_S = 400.0
_DECODING = "decoder of 12 layers, 86 M parameters"
_ONE = "one operator"
_PHASES = ("imports", "trace", "passes", "Inductor", "C++ compiler")


def _gpt(layers: int) -> Workload:
    title = f"GPT {layers} layers, d 256, batch 4 x 64"
    return Workload(title, lambda: GPT(CHARACTERS, width=256, layers=layers), lambda: models._text(CHARACTERS, 4, 64))


WORKLOADS = {workload.title: workload for workload in (_gpt(12), _gpt(24), models.BERT, models.RESNET)}
GPT_12, GPT_24 = list(WORKLOADS)[:2]


@dataclass
class Decoder:
    """A step of a decoder as vLLM's plugin runs it: one token of each request, keys and values in blocks of a cache.
    12 layers, d 768, 12 heads, feed-forward 2048, bfloat16, 4 blocks of 128 tokens for each request."""

    width: int = 768
    heads: int = 12
    inner: int = 2048
    layers: int = 12
    words: int = 512
    block: int = 128
    blocks: int = 4  # of a request
    requests: int = 8  # for which the cache has blocks

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        shapes = {
            "qkv": (3 * self.width, self.width),
            "out": (self.width, self.width),
            "up": (2 * self.inner, self.width),
            "down": (self.width, self.inner),
        }
        self.weights = [
            {name: self._made(0.02 * torch.randn(shape)) for name, shape in shapes.items()} for _ in range(self.layers)
        ]
        self.norm = self._made(torch.ones(self.width))
        self.embedding = self._made(torch.randn(self.words, self.width))
        slots = self.requests * self.blocks * self.block
        shape = (slots, self.heads, self.width // self.heads)
        self.caches = [[self._made(torch.zeros(shape)) for _ in range(2)] for _ in range(self.layers)]
        angles = torch.outer(torch.arange(512.0), 10000 ** -torch.linspace(0, 1, self.width // self.heads // 2))
        self.turns = self._made(torch.cat([angles.cos(), angles.sin()], 1))

    @staticmethod
    def _made(tensor: Tensor) -> Tensor:
        return tensor.bfloat16().to("hpu")

    def inputs(self, batch: int) -> tuple[Tensor, ...]:
        """Tokens, positions, slots in the cache, and the blocks of each request."""
        blocks = torch.arange(batch * self.blocks)
        places = torch.arange(batch) * self.blocks * self.block
        made = (torch.arange(batch) % self.words, torch.zeros(batch, dtype=torch.int64), places, blocks)
        return tuple(tensor.to("hpu") for tensor in made)

    def step(self, tokens: Tensor, positions: Tensor, slots: Tensor, blocks: Tensor) -> Tensor:
        """The next token of each request."""
        x = F.embedding(tokens, self.embedding)
        turns = self.turns[positions].unsqueeze(1)
        for weights, caches in zip(self.weights, self.caches, strict=True):
            x = self._layer(x, weights, caches, turns, slots, blocks)
        return F.linear(self._normed(x), self.embedding).argmax(-1)

    def _normed(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).bfloat16() * self.norm

    def _layer(
        self, x: Tensor, weights: dict[str, Tensor], caches: list[Tensor], turns: Tensor, slots: Tensor, blocks: Tensor
    ) -> Tensor:
        batch, size = x.shape[0], self.width // self.heads
        query, key, value = F.linear(self._normed(x), weights["qkv"]).view(batch, 3, self.heads, size).unbind(1)
        query, key = self._turned(query, turns), self._turned(key, turns)
        kept = []
        for cache, new in zip(caches, (key, value), strict=True):
            cache.index_copy_(0, slots, new)
            of_blocks = cache.view(-1, self.block, self.heads, size).index_select(0, blocks)
            kept.append(of_blocks.view(batch, self.blocks * self.block, self.heads, size).transpose(1, 2))
        scores = torch.matmul(query.unsqueeze(2), kept[0].transpose(-1, -2)) / math.sqrt(size)
        found = torch.matmul(scores.softmax(-1), kept[1]).reshape(batch, self.width)
        x = x + F.linear(found, weights["out"])
        gate, up = F.linear(self._normed(x), weights["up"]).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, weights["down"])

    @staticmethod
    def _turned(x: Tensor, turns: Tensor) -> Tensor:
        cos, sin = turns.chunk(2, -1)
        first, second = x.chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class _Phases:
    """Listens to compilations: seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._subscription = events.subscribe("graph_compilation", self._hear)

    def _hear(self, event: Any) -> None:
        for name, took in event.params["phases"].items():
            self.seconds[name] = self.seconds.get(name, 0.0) + took / 1e6

    def taken(self) -> dict[str, float]:
        """Since the last call."""
        seconds, self.seconds = self.seconds, {}
        return seconds


def _until_compiled(step: Any, phases: _Phases) -> dict[str, Any]:
    """Seconds from the first step until each graph has its recipe, with the compiler's phases."""
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    for _ in range(2):  # the first one learns operators; a graph is compiled when it repeats
        step()
    openhpu.wait_for_recipes(_RECIPES_S)
    ready = time.perf_counter() - start
    step()
    openhpu.reset_counters()
    step()
    left = openhpu.counters()["ops_node_by_node"]
    recipe = max(openhpu.recipes(), key=lambda recipe: recipe.operators)
    sizes = {"operators": recipe.operators, "calls": recipe.calls}
    return {"first": first, "ready": ready, "node by node": left, "phases": phases.taken(), **sizes}


def trained(title: str) -> dict[str, Any]:
    """A training step in lazy mode; of one operator: that of the graph x + 1."""
    phases = _Phases()
    if title == _ONE:
        x = torch.ones(16, device="hpu")

        def step() -> float:
            y = x + 1
            htcore.mark_step()
            return float(y.sum().item())

        return _until_compiled(step, phases)
    training = WORKLOADS[title].training("hpu")
    return _until_compiled(lambda: training.step().item(), phases)


def decoded(batches: list[int]) -> list[dict[str, Any]]:
    """A decoder's step with one batch size after the other, without gradients."""
    phases, found = _Phases(), []
    with torch.no_grad():
        decoder = Decoder()
        for batch in batches:
            given = decoder.inputs(batch)

            def step(given: tuple[Tensor, ...] = given) -> list[int]:
                tokens = decoder.step(*given)
                htcore.mark_step()
                return tokens.tolist()  # type: ignore[no-any-return]

            found.append(_until_compiled(step, phases))
    return found


def inductor(title: str) -> dict[str, Any]:
    """The same training step on the CPU, its model through torch.compile: seconds until the second step ended."""
    training = WORKLOADS[title].training("cpu")
    training.model = torch.compile(training.model)  # type: ignore[assignment]
    start = time.perf_counter()
    for _ in range(2):
        training.step().item()
    return {"ready": time.perf_counter() - start}


class Training(Steps):
    """A training in a process of its own, lazy; see `alone`."""

    def __init__(self, title: str):
        training = WORKLOADS[title].training("hpu")
        self.on_hpu, self.step = True, training.step
        self.turn = Peer("alone", self.step, on_hpu=True).take_turn

    def losses(self, steps: int) -> list[float]:
        """Make three steps and wait for the recipes; the losses of as many steps in recipes."""
        for _ in range(3):
            self.step().item()
        openhpu.wait_for_recipes(_RECIPES_S)
        return [self.step().item() for _ in range(steps)]


def _cold(what: str, *arguments: Any, **environment: str) -> Any:
    """What a process returns that finds empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {
            "PT_HPU_RECIPE_CACHE_CONFIG": f"{folder}/recipes",
            "OPENHPU_HEADER_CACHE": f"{folder}/headers",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "PT_HPU_LAZY_MODE": "1",
        }
        return probe(f"first:{what}", *arguments, **caches, **environment)


def _note(alone: int) -> str:
    return f"{alone} of them ran NODE BY NODE." if alone else "All graphs run as recipes."


def _spread(found: list[dict[str, Any]], name: str = "ready") -> Spread:
    return Spread.of([run[name] for run in found])


def starts(rounds: int) -> Table:
    """Empty caches: until each graph has its recipe."""
    columns = ["step", "operators", "calls", "hpu, first step", "hpu, s", "aim, s", "CPU, torch.compile, s"]
    table = Table("until every graph has its recipe, empty caches", columns)
    quick = rounds < ROUNDS_TO_QUOTE
    left = 0
    ready: dict[str, float] = {}
    for title in (_ONE, *(list(WORKLOADS) if not quick else [])):
        found = [_cold("trained", title) for _ in range(rounds)]
        beside: Any = ""
        if title != _ONE:
            beside = _spread([_cold("inductor", title) for _ in range(rounds)])
        ready[title] = _spread(found).median
        aim = ""
        if title == GPT_12:
            aim = f"<= {ready[_ONE] + (62.5 - ready[_ONE]) / 4:.1f}"
        elif title == GPT_24:
            aim = f"<= {1.15 * ready[GPT_12]:.1f}"
        left += sum(run["node by node"] for run in found)
        one = found[0]
        table.add(title, one["operators"], one["calls"], _spread(found, "first"), _spread(found), aim, beside)
    runs = [_cold("decoded", [4] if quick else [4, 6, 8]) for _ in range(rounds)]
    for number, name in enumerate(("batch 4", "a second batch size", "a third")[: len(runs[0])]):
        found = [run[number] for run in runs]
        left += sum(run["node by node"] for run in found)
        one, aim = found[0], "<= 8" if number == 1 else ""
        cells = (one["operators"], one["calls"], _spread(found, "first"), _spread(found), aim, "")
        table.add(f"{_DECODING}, {name}", *cells)
    table.notes += [
        _note(left),
        "A process each. The time begins with the first step, and contains the start of the compiler. Recipes are "
        "compiled in the background.",
        "The aim of 12 layers: the time of one operator and a fourth of the rest of 62.5 s.",
    ]
    return table


def phases(rounds: int) -> Table:
    """Where the time goes, divided and as a whole."""
    columns = ["graph", "compiled", *_PHASES, "without imports", "regions / whole"]
    table = Table("seconds of a compilation by phase, empty caches", columns)
    for title in WORKLOADS if rounds >= ROUNDS_TO_QUOTE else [_ONE]:
        sums: dict[str, float] = {}
        for name, divided in (("whole", "0"), ("regions", "1")):
            runs = [_cold("trained", title, OPENHPU_REGIONS=divided)["phases"] for _ in range(rounds)]
            spent = [sum(took for phase, took in run.items() if phase != _PHASES[0]) for run in runs]
            sums[name] = Spread.of(spent).median
            share = f"{sums[name] / sums['whole']:.2f}" if divided == "1" else ""
            by_phase = [Spread.of([run.get(phase, 0.0) for run in runs]) for phase in _PHASES]
            table.add(title, name, *by_phase, Spread.of(spent), share)
    table.notes += ["ResNet-18's layers repeat twice at most: they stay whole.", "Aim: BERT and ResNet <= 0.6."]
    return table


class Called(Steps):
    """Replays of a captured graph of small layers, in a process of its own."""

    LAYERS = 16

    def __init__(self) -> None:
        x = torch.ones(4, 4, device="hpu")
        weights = [torch.eye(4, device="hpu") for _ in range(self.LAYERS)]

        def layers(y: Tensor = x) -> Tensor:
            for weight in weights:
                for number in (1.5, 1.25, 0.75):
                    y = torch.relu(y @ weight) * number
            return y

        self.graph, _ = captured(layers)
        self.on_hpu, self.step = True, self.graph.replay
        self.turn = Peer("alone", self.step, on_hpu=True).take_turn

    def recipe(self) -> bool:
        """Whether the graph runs as a recipe."""
        return bool(self.graph.describe()["recipe"])


def calls(rounds: int) -> Table:
    """What a call of a region costs: layers that take no time, divided and as a whole."""
    with ExitStack() as stack:
        peers = {}
        for name, divided in (("whole", "0"), ("regions", "1")):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            chosen = {"OPENHPU_REGIONS": divided, "PT_HPU_RECIPE_CACHE_CONFIG": folder}
            peers[name] = stack.enter_context(children.Peer("first:Called", environment=chosen))
        note = _note(sum(not peer.recipe() for peer in peers.values()))
        found = in_turns([Peer(name, turn=peer.turn) for name, peer in peers.items()], rounds, 500)
    spent = [a - b for a, b in zip(found["regions"].done, found["whole"].done, strict=True)]
    table = table_of(f"replay of {Called.LAYERS} layers of three 4 x 4 products", found, "whole", [note])
    cost = Spread.of(spent, 1e6 / Called.LAYERS)
    table.notes.append(f"A call costs {cost.median:.2f} us ({cost.low:.2f} to {cost.high:.2f}). Aim: <= 1 us.")
    return table


def steps(title: str, rounds: int) -> Table:
    """Step times of both, in turns, and by how much the losses differ."""
    with ExitStack() as stack:
        peers = {}
        for name, divided in (("whole", "0"), ("regions", "1")):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            chosen = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_REGIONS": divided, "PT_HPU_RECIPE_CACHE_CONFIG": folder}
            peers[name] = stack.enter_context(children.Peer("first:Training", title, environment=chosen))
        losses = {name: peer.losses(20) for name, peer in peers.items()}
        found = in_turns([Peer(name, turn=peer.turn) for name, peer in peers.items()], rounds, 5)
    difference = max(abs(a - b) / abs(b) for a, b in zip(losses["regions"], losses["whole"], strict=True))
    note = f"Relative difference of 20 losses, the largest: {difference:.1e}. Aim: a step within 2 %."
    return table_of(f"training step, {title}", found, "whole", [note])


def first(rounds: int) -> list[Table]:
    """The tables. Few rounds, to see that it runs, take one operator and a decoder's first batch alone."""
    tables = [part("starts", starts, rounds), part("phases", phases, rounds)]
    tables.append(part("calls", calls, rounds))
    for title in WORKLOADS if rounds >= ROUNDS_TO_QUOTE else []:
        tables.append(part(f"steps, {title}", steps, title, rounds))
    return tables
