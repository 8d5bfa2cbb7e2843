"""What a collective costs: links between all cards of a node, and a ring over nodes.

A card has a link to each other card of its node, and ports out of the node. A collective over several nodes is done
within each node, and over rings of cards that have the same place in their node, each with its part of the tensor.
"""

from collections import Counter
from collections.abc import Collection

from openhpu_predict.devices import Device

# How often the data passes: an all-reduce is a reduce-scatter and an all-gather, a broadcast a scatter and an
# all-gather. Those of any other collective pass once.
_PASSES = {"allreduce": 2, "broadcast": 2, "reduce": 2}
_PAIRS = ("send", "recv")
_NAMES = ("allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce", *_PAIRS)


def name(op: str) -> str:
    """What the operators `all_reduce`, `allreduce_`, `all_reduce_coalesced` and so on have in common: `allreduce`."""
    plain = op.replace("_", "")
    return next((known for known in _NAMES if plain.startswith(known)), plain)


def seconds(op: str, size: float, ranks: Collection[int], device: Device) -> float:
    """Seconds of the collective `op` among `ranks`.

    `size`: bytes of a card's whole tensor, the larger of its input and its output. Ranks lie in nodes one after the
    other. A group of one card communicates nothing, except that `send` and `recv` go to the next rank. Raises
    PredictError for a device without links.
    """
    op = name(op)
    total = len(ranks)
    nodes = Counter(rank // int(device.node_cards) for rank in ranks)
    if total > 1 or op in _PAIRS:
        device.require_links()
    inside, outside = device.port_bandwidth * device.ports_per_peer, device.port_bandwidth * device.ports_out
    if op in _PAIRS:
        bandwidth, latency = (outside, device.node_latency) if len(nodes) > 1 else (inside, device.hop_latency)
        return size / bandwidth + latency
    if total < 2:
        return 0.0
    cards = max(nodes.values())
    count = len(nodes)
    if op == "alltoall":
        out = size * (total - cards) / total / outside + device.node_latency if count > 1 else 0.0
        return max(out, size / total / inside + device.hop_latency if cards > 1 else 0.0)
    passes = _PASSES.get(op, 1)
    spent = 0.0
    if cards > 1:  # each of its steps uses the links to all peers
        spent += passes * ((cards - 1) / cards * size / (inside * (cards - 1)) + device.hop_latency)
    if count > 1:
        part = size / min(nodes.values())
        spent += passes * (count - 1) * (part / count / outside + device.node_latency)
    return spent
