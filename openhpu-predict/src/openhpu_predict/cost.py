"""What the nodes of a step cost on a device: fused kernels, their times, and the schedule of a step on the engines.

The time of a kernel is the longest of its times on the MME, on the TPC, on memory and on the network, and a static cost
is added. A kernel begins when its engine is free and its inputs are there.
"""

import dataclasses
import math
import tomllib
from collections import defaultdict
from collections.abc import Sequence

import torch

from openhpu_predict import network, operators
from openhpu_predict.devices import DATA, Device
from openhpu_predict.operators import Kind
from openhpu_predict.recording import Block, Node

_FP8 = {torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.int8}
_HALF = {torch.bfloat16, torch.float16}
_FLOPS_OF_CYCLE = 256  # a TPC's multiply-adds of bf16
_CHAINED = (Kind.POINTWISE, Kind.ROWS)


@dataclasses.dataclass(frozen=True)
class Parameters:
    """What was fitted to published results. `data/parameters.toml` has the values."""

    matmul_efficiency: float  # the share of the rate of the largest measured matmul
    # By the rate at which a published decode moved its weights. Above 1: that decode had other kernels, too.
    hbm_efficiency: float
    tpc_efficiency: float  # the share of the TPC's peak
    kernel_seconds: float  # the static cost of a kernel
    first_token_seconds: float  # the host's share of a first token; no step of a script has it

    @staticmethod
    def fitted() -> "Parameters":
        """The values in force."""
        return Parameters(**tomllib.loads((DATA / "parameters.toml").read_text()))


@dataclasses.dataclass(slots=True)
class Kernel:
    """Nodes that run as one, with one pass over memory."""

    nodes: list[int]
    engine: str
    elements: int
    after: set[int] = dataclasses.field(default_factory=set)  # kernels whose results it reads
    reads: dict[int, int] = dataclasses.field(default_factory=dict)  # bytes by storage
    writes: dict[int, int] = dataclasses.field(default_factory=dict)
    within: set[int] = dataclasses.field(default_factory=set)  # storages that it writes, and reads again
    work: dict[str, float] = dataclasses.field(default_factory=dict)  # seconds by TPC, HBM, network and host
    products: list[tuple[float, float]] = dataclasses.field(default_factory=list)  # seconds on the MME, on the TPC
    begin: float = 0.0  # seconds from the begin of the step
    seconds: float = 0.0
    bound: str = ""  # MME, TPC, HBM, network or host
    mme_seconds: float = 0.0  # at the peak rate, for the utilisation
    bytes: float = 0.0
    cut: str = ""  # the graph ends after it

    def take(self, number: int, node: Node) -> None:
        """Make the node with this number a part of the kernel. What it reads of the kernel's own stays within."""
        self.nodes.append(number)
        self.elements = max(self.elements, node.elements)
        for key, size in node.reads.items():
            if key in self.writes:
                self.within.add(key)
            else:
                self.reads[key] = max(size, self.reads.get(key, 0))
        for key, size in node.writes.items():
            self.writes[key] = max(size, self.writes.get(key, 0))


@dataclasses.dataclass
class Timeline:
    """The schedule of a step."""

    kernels: list[Kernel]
    seconds: float
    graphs: int
    read_lines: dict[tuple[str, int] | None, int]  # reads that end a graph
    mme_utilisation: float  # of the peak
    hbm_utilisation: float
    bound: str  # the engine that is busy for the longest time


def fuse(nodes: Sequence[Node], blocks: Sequence[Block], first: int = 0, eager: bool = False) -> list[Kernel]:
    """Kernels of a graph; chains of elementwise operators become one. In eager mode each node is a kernel.

    A chain also takes reductions over the last dimension, as Gaudi's kernels for norms and softmax do. What is written
    and read within a chain, and is dead afterwards, never reaches the memory. A cast from fp8 that is undone does not
    run. `first`: the number of the first node.
    """
    kernels: list[Kernel] = []
    writer: dict[int, int] = {}  # the last kernel that wrote a storage
    part = 0  # the first kernel of the graph
    read = {key for node in nodes for key in node.reads} if not eager else set()
    for at, node in enumerate(nodes):
        if node.undone and not eager and read.isdisjoint(node.writes):
            continue
        after = {writer[key] for key in node.reads if key in writer}
        target = _chain(node, after, kernels, nodes, part) if not eager else None
        if target is None:
            target = len(kernels)
            kernels.append(Kernel([], operators.ENGINES.get(node.kind, "TPC"), node.elements))
        kernel = kernels[target]
        kernel.after |= after - {target}
        kernel.take(at, node)
        writer.update(dict.fromkeys(node.writes, target))
        if node.cut:
            part = len(kernels)
            kernels[-1].cut = node.cut
    readers: defaultdict[int, set[int]] = defaultdict(set)
    for number, kernel in enumerate(kernels):
        for key in kernel.reads:
            readers[key].add(number)
    end = first + len(nodes)
    for number, kernel in enumerate(kernels):
        kernel.bytes = sum(kernel.reads.values()) + sum(
            size
            for key, size in kernel.writes.items()
            if key not in kernel.within
            or readers[key] - {number}
            or (blocks[key].died or end + 1) > end
            or blocks[key].born < first
        )
    return kernels


def _chain(node: Node, after: set[int], kernels: list[Kernel], nodes: Sequence[Node], part: int) -> int | None:
    """The kernel that a node joins: the latest that it reads from, if that is a chain of the same length."""
    if node.kind not in _CHAINED or not after or max(after) < part:
        return None
    kernel = kernels[max(after)]
    if nodes[kernel.nodes[-1]].kind not in _CHAINED or nodes[kernel.nodes[-1]].backward != node.backward:
        return None
    small, large = sorted((node.elements, kernel.elements))
    return max(after) if small and large % small == 0 else None


# How many products of a batch an array computes at once, each with a part of its height.
_TOGETHER = (1, 2, 4)


def mme_use(product: operators.Product, device: Device) -> float:
    """The share of the MME that a product of this size can use, 0 to 1.

    Each of the MME's arrays computes one tile of results. Tiles have the array's size, or twice its width and half its
    height, or the reverse. Two or four products of a batch share an array, each with a part of its height. The last
    tiles of a row, of a column and of a round are not full.
    """
    batch, rows, columns, _ = product
    best = 0.0
    for factor in (0.5, 1.0, 2.0):
        height, width = device.mme_rows * factor, device.mme_columns / factor
        for together in _TOGETHER:
            tiles = math.ceil(batch / together) * math.ceil(rows * together / height) * math.ceil(columns / width)
            rounds = math.ceil(tiles / device.mme_count)
            best = max(best, batch * rows * columns / (rounds * device.mme_count * height * width))
    return best


def work(kernel: Kernel, nodes: Sequence[Node], device: Device) -> None:
    """Set the kernel's seconds on each engine and on memory, were nothing lost but what the sizes cost."""
    tpc = net = host = kernel.mme_seconds = 0.0
    kernel.products = []
    penalty = 1.0
    for at in kernel.nodes:
        node = nodes[at]
        for product in node.products:
            _add_product(kernel, product, node.dtype, device)
        rate = device.tpc_bf16_peak / max(node.dtype.itemsize, 2)  # steps/s; the peak counts a multiply-add twice
        if node.kind is Kind.ATTENTION:
            scores = math.prod(node.products[0][:3])
            tpc += scores * operators.attention_steps(node.op) / rate
        elif node.kind is Kind.KERNEL:
            tpc += node.cycles * _FLOPS_OF_CYCLE / device.tpc_bf16_peak
        elif node.kind not in (Kind.PRODUCT, Kind.COPY, Kind.HOST_COPY, Kind.COLLECTIVE):
            tpc += node.elements * operators.steps(node.op) / rate
        if node.kind is Kind.GATHER and 0 < node.access < device.small_access_bytes:
            penalty = device.small_access_penalty
        if node.kind is Kind.COLLECTIVE:
            size = max(sum(node.reads.values()), sum(node.writes.values()))
            net += network.seconds(node.op, size, node.ranks, device)
        if node.kind is Kind.HOST_COPY:
            host += max([*node.reads.values(), *node.writes.values()], default=0) / device.host_bandwidth
    memory = 0.0 if host else kernel.bytes * penalty / device.hbm_measured
    kernel.work = {"TPC": tpc, "HBM": memory, "network": net, "host": host}


def _add_product(kernel: Kernel, product: operators.Product, dtype: torch.dtype, device: Device) -> None:
    """Its seconds on the MME and on the TPC, of which `time` chooses."""
    flops = 2.0 * math.prod(product)
    peak, measured = _rates(dtype, device)
    on_mme = flops / (measured * device.mme_sustained * mme_use(product, device))
    vector = device.tpc_bf16_peak
    kernel.products.append((on_mme, flops / (vector if dtype.itemsize < 4 else vector / 2)))
    kernel.mme_seconds += flops / peak


def time(kernel: Kernel, parameters: Parameters) -> None:
    """Set the kernel's time and what bounds it. A product runs on the TPC where that is faster."""
    times = {"MME": 0.0, **kernel.work}
    times["HBM"] /= parameters.hbm_efficiency
    times["TPC"] /= parameters.tpc_efficiency
    for on_mme, on_tpc in kernel.products:
        mme, tpc = on_mme / parameters.matmul_efficiency, on_tpc / parameters.tpc_efficiency
        times["MME" if mme <= tpc else "TPC"] += min(mme, tpc)
    kernel.bound = max(times, key=times.__getitem__)
    kernel.seconds = times[kernel.bound] + parameters.kernel_seconds


def _rates(dtype: torch.dtype, device: Device) -> tuple[float, float]:
    """The peak and the measured rate of the MME. That of float32 was not measured: bf16's ratio is taken."""
    if dtype in _FP8:
        return device.mme_fp8_peak, device.mme_fp8_measured
    if dtype in _HALF:
        return device.mme_bf16_peak, device.mme_bf16_measured
    return device.mme_fp32_peak, device.mme_fp32_peak * device.mme_bf16_measured / device.mme_bf16_peak


def schedule(
    nodes: Sequence[Node], kernels: list[Kernel], device: Device, parameters: Parameters, eager: bool = False
) -> Timeline:
    """Run the kernels on their engines. The host launches a graph (in eager mode: a node) and goes on.

    At a read it waits for the device. All share the memory's bandwidth: a step takes at least the time of its bytes.
    """
    free: defaultdict[str, float] = defaultdict(float)
    busy: defaultdict[str, float] = defaultdict(float)
    done: list[float] = []
    lines: defaultdict[tuple[str, int] | None, int] = defaultdict(int)
    host = moved = 0.0
    graphs, begins = 0, True
    for kernel in kernels:
        if not kernel.work:
            work(kernel, nodes, device)
        time(kernel, parameters)
        if begins or eager:
            host += device.eager_launch * len(kernel.nodes) if eager else device.graph_launch
            graphs += 1
        start = kernel.begin = max([host, free[kernel.engine], *(done[one] for one in kernel.after)])
        free[kernel.engine] = start + kernel.seconds
        done.append(start + kernel.seconds)
        busy[kernel.bound] += kernel.seconds
        if kernel.bound != "host":
            moved += kernel.bytes
        begins = bool(kernel.cut)
        if kernel.cut == "read":
            host = max(host, *done)
            lines[nodes[kernel.nodes[-1]].site] += 1
    if eager:
        busy["host"] = max(busy["host"], host)
    span = max([0.0, *done])
    seconds = max(span, moved / (device.hbm_measured * parameters.hbm_efficiency))
    mme = sum(kernel.mme_seconds for kernel in kernels)
    bound = max(busy, key=busy.__getitem__, default="nothing")
    return Timeline(
        kernels=kernels,
        seconds=seconds,
        graphs=graphs,
        read_lines=dict(lines),
        mme_utilisation=mme / seconds if seconds else 0.0,
        hbm_utilisation=moved / device.hbm_bandwidth / seconds if seconds else 0.0,
        bound=bound,
    )
