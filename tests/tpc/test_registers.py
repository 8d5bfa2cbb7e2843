"""Intrinsics that work on whole registers, coordinates and memory, against definitions of their own (registers.py)."""

import ctypes

import numpy as np
import pytest

from openhpu_tpc import intrinsics
from tests.tpc import calls, registers

NAMES = [
    name
    for name, it in sorted(intrinsics.intrinsics().items())
    if not it.refused and it.family.name in registers.FAMILIES
]
SHARDS = 2


class Machine:
    """The memory of a library's thread."""

    def __init__(self, library):
        self.library = library
        for name in ("scalar_memory", "vector_memory"):
            getattr(library, name).restype = ctypes.c_void_p
        self.tensor = np.zeros(4096, np.uint8)

    def place(self, case):
        """Put the case's memory where the call finds it. Returns an array that looks at it."""
        data = np.frombuffer(case.memory.tobytes(), np.uint8)
        if case.kind in ("scalars", "vectors"):
            address = getattr(self.library, "scalar_memory" if case.kind == "scalars" else "vector_memory")()
            there = np.ctypeslib.as_array((ctypes.c_uint8 * data.size).from_address(address))
        else:
            there = self.tensor[: data.size]
        there[:] = data
        if case.kind == "tensor":
            sizes = (ctypes.c_uint32 * 2)(*registers.SIZES)
            padding = ctypes.c_uint32(int.from_bytes(bytes([registers.PADDING]) * 4, "little"))
            self.library.set_tensor(ctypes.c_void_p(there.ctypes.data), sizes, 2, case.memory.itemsize, padding)
        return there


def aligned(data):
    """A copy whose address fits a register."""
    memory = np.zeros(len(data) + 128, np.uint8)
    start = -memory.ctypes.data % 64
    memory[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return memory[start : start + max(len(data), 8)]


def operand(data, there):
    """An operand's bytes; `address N` stands for an address of the memory."""
    if data.startswith(b"address "):
        return (there.ctypes.data + int(data[8:])).to_bytes(8, "little")
    return data


def chosen_bytes(it, predicate, size):
    """Which bytes of the result the predicate chooses; of a result of bits, which bits."""
    if it.family.result.startswith("=bool"):
        return np.packbits(predicate, bitorder="little")
    count = size // registers.REGISTER  # lanes at the same place of two registers share a predicate
    return np.tile(np.repeat(predicate, size // predicate.size // count), count) * np.uint8(255)


def run(it, function, case, there, predicate, polarity):
    """The result's bytes."""
    size = len(operand(case.wanted, there))
    tail = [] if it.family.tail == "-" else [registers.number(case.switches)]
    if tail and it.family.result != "void":
        tail.append(case.income)
    if tail:
        if it.family.result == "void" or it.family.tail == "n":
            tail = [tail[0], b""]
        tail += [predicate, bytes([polarity])]
    result = aligned(bytes(max(size, 8)))
    operands = [aligned(operand(each, there)) for each in case.arguments] + [aligned(each) for each in tail]
    everything = [result, *operands]
    function((ctypes.c_void_p * len(everything))(*(each.ctypes.data for each in everything)))
    return result.tobytes()[:size]


def check(it, function, machine, seed):
    rng = np.random.default_rng(seed)
    writer = intrinsics._Writer(it)
    for case in registers.FAMILIES[it.family.name](it, rng):
        if case.income is None:
            size = 8 if case.wanted.startswith(b"address") else len(case.wanted)
            one_bit = it.form == "s" and it.family.result == "=bool"
            case.income = rng.integers(0, 2 if one_bit else 256, size, np.uint8).tobytes()
        if it.family.tail == "-":
            assert run(it, function, case, None, b"", 0) == case.wanted
            continue
        for polarity in (0, 1):
            vector = it.form == "vb"
            predicates = [rng.integers(0, 2, writer.predicate_lanes).astype(bool)] if vector else [False, True]
            for predicate in predicates:
                there = machine.place(case) if case.memory is not None else None
                given = np.packbits(predicate, bitorder="little").tobytes() if it.form == "vb" else bytes([predicate])
                got = np.frombuffer(run(it, function, case, there, given, polarity), np.uint8)
                wanted = np.frombuffer(operand(case.wanted, there), np.uint8)
                income = np.frombuffer(case.income, np.uint8)
                if it.form == "vb":
                    which = chosen_bytes(it, predicate != bool(polarity), wanted.size)
                    np.testing.assert_array_equal(got, (wanted & which) | (income & ~which))
                elif it.family.result != "void":
                    np.testing.assert_array_equal(got, wanted if predicate != bool(polarity) else income)
                if there is not None:
                    runs = it.form == "vb" or predicate != bool(polarity)
                    left = case.changed if runs else case.memory
                    np.testing.assert_array_equal(there, np.frombuffer(left.tobytes(), np.uint8))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_lane(shard):
    chosen = [intrinsics.intrinsics()[name] for name in NAMES[shard::SHARDS]]
    failed = []
    for made in calls.libraries(chosen):
        machine = Machine(made.library)
        for number, (name, function) in enumerate(made.functions.items()):
            try:
                check(intrinsics.intrinsics()[name], function, machine, number)
            except Exception as error:
                failed.append(f"{name}: {str(error).strip().splitlines()[0:9]}")
    assert not failed, f"{len(failed)} of {len(chosen)}:\n" + "\n".join(failed[:25])
