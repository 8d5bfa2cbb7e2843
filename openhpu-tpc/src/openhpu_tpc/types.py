"""The types of TPC-C: lanes, and the vectors, pairs and predicates that are made of them."""

from typing import NamedTuple

VECTOR_BITS = 2048


class Lane(NamedTuple):
    """One type of lanes: its short name, its C name, the stem of its vectors' names, and its width in bits."""

    name: str
    scalar: str
    stem: str
    bits: int
    real: bool = False

    @property
    def lanes(self) -> int:
        """How many lanes a register has."""
        return VECTOR_BITS // self.bits

    @property
    def signed(self) -> bool:
        """Whether a narrow lane extends its sign."""
        return self.real or self.name.startswith("i")


LANES = {
    lane.name: lane
    for lane in (
        Lane("f32", "float", "float", 32, real=True),
        Lane("bf16", "bf16", "bfloat", 16, real=True),
        Lane("f16", "half", "half", 16, real=True),
        Lane("f8", "minifloat", "minifloat", 8, real=True),
        Lane("h8", "minihalf", "minihalf", 8, real=True),
        Lane("i32", "int", "int", 32),
        Lane("u32", "unsigned int", "uint", 32),
        Lane("i16", "short", "short", 16),
        Lane("u16", "unsigned short", "ushort", 16),
        Lane("i8", "signed char", "char", 8),
        Lane("u8", "unsigned char", "uchar", 8),
    )
}
REAL = [name for name, lane in LANES.items() if lane.real]
INTEGERS = [name for name, lane in LANES.items() if not lane.real]


def vector(lane: Lane, lanes: int) -> str:
    """The type of `lanes` lanes: a register, a pair or a quad."""
    return f"{lane.stem}{lanes}"


def signed_like(lane: Lane) -> Lane:
    """The signed integer as wide as a lane."""
    return LANES[f"i{lane.bits}"]


def unsigned_like(lane: Lane) -> Lane:
    """The unsigned integer as wide as a lane."""
    return LANES[f"u{lane.bits}"]


def pair(first: str, second: str) -> str:
    """The type of two registers."""
    if first == second:
        stem = first.rstrip("0123456789")
        return f"{stem}{2 * int(first[len(stem) :])}"
    return f"{first}_{second}"


def alike() -> list[tuple[str, str]]:
    """Pairs of types of one width."""
    return [(a, b) for a in LANES for b in LANES if LANES[a].bits == LANES[b].bits]


def conversions() -> list[tuple[str, str]]:
    """Pairs of different types."""
    return [(a, b) for a in LANES for b in LANES if a != b]
