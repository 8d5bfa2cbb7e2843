"""What bounds a kernel on a Gaudi, from what it has done.

A processor (TPC) starts one operation of vectors in a cycle, and one access of global memory (256 bytes) in four. All
processors share the memory of the card. The three times overlap, and so the longest one bounds the kernel. Two
things are left out: which instructions share a cycle, and how long each result takes.
"""

from typing import NamedTuple

from openhpu_tpc.loading import Account

_CYCLES_OF_ACCESS = 4  # of 256 bytes in global memory
_CYCLES_OF_SCALAR = 4  # of an access by an address
_CYCLES_OF_SPECIAL = 20  # of a special function of a register, assumed: a table look-up and a polynomial


class Card(NamedTuple):
    """A generation: its processors, their clock in Hz, and the bandwidth of its memory in bytes/s."""

    processors: int
    clock: float
    bandwidth: float


# The vendor's figures (Hot Chips 2024), as `openhpu predict` has them. The clock of a Gaudi 3 follows from its rate.
CARDS = {
    "gaudi2": Card(24, 1.8e9, 2.46e12),
    "gaudi3": Card(64, 28.7e12 / (64 * 256), 3.67e12),
}


class Bound(NamedTuple):
    """Seconds of each part; the longest bounds the kernel."""

    vectors: float
    accesses: float
    memory: float

    @property
    def seconds(self) -> float:
        """The time of the part that bounds the kernel."""
        return max(self)

    @property
    def name(self) -> str:
        """Which part that is."""
        names = {
            "vectors": "operations of vectors",
            "accesses": "loads and stores",
            "memory": "bandwidth of the memory",
        }
        return names[max(self._fields, key=lambda each: getattr(self, each))]


def bound(account: Account, generation: str) -> Bound:
    """The times of a kernel on a card. Members are spread over its processors, the last round partly empty."""
    card = CARDS[generation]
    if account.members == 0:
        return Bound(0.0, 0.0, 0.0)
    rounds = -(-account.members // card.processors)
    vectors = (account.vector + _CYCLES_OF_SPECIAL * account.special) / account.members
    accesses = _CYCLES_OF_ACCESS * (account.loads + account.stores) + _CYCLES_OF_SCALAR * account.scalars
    moved = account.load_bytes + account.store_bytes
    return Bound(
        rounds * vectors / card.clock, rounds * accesses / account.members / card.clock, moved / card.bandwidth
    )


def cycles(account: Account) -> float:
    """Cycles of one processor that all members take together, without the bandwidth of the memory."""
    vectors = account.vector + _CYCLES_OF_SPECIAL * account.special
    accesses = _CYCLES_OF_ACCESS * (account.loads + account.stores) + _CYCLES_OF_SCALAR * account.scalars
    return float(max(vectors, accesses))


def text(account: Account) -> str:
    """The account of a member and of the whole, and what bounds the kernel."""
    rows = [
        ("operations of vectors", account.vector),
        ("special functions", account.special),
        ("loads of tensors", account.loads),
        ("stores of tensors", account.stores),
        ("bytes loaded", account.load_bytes),
        ("bytes stored", account.store_bytes),
        ("accesses by addresses", account.scalars),
        ("accesses of local memory", account.local),
    ]
    members = max(account.members, 1)
    lines = [f"{'':26} {'a member':>12} {'all':>14}", f"{'members':26} {'':>12} {account.members:>14,}"]
    lines += [f"{name:26} {count / members:>12,.1f} {count:>14,}" for name, count in rows]
    for name in CARDS:
        limit = bound(account, name)
        lines.append(f"{name}: at least {limit.seconds * 1e6:.2f} us; the {limit.name} bound it")
    return "\n".join(lines)
