"""Each intrinsic on every lane, with income, predicate and polarity, against definitions of its own (oracle.py)."""

import ctypes

import numpy as np
import pytest

from openhpu_tpc import intrinsics, types
from openhpu_tpc.types import LANES
from tests.tpc import calls, oracle

SHARDS = 6


def has_definition(family):
    return family.name in oracle.FAMILIES or (family.kind == "each" and oracle.special(family.name) is not None)


NAMES = [name for name, it in sorted(intrinsics.intrinsics().items()) if not it.refused and has_definition(it.family)]
TOLERANCE = {"f32": 3e-6, "bf16": 2.0**-7, "f16": 2.0**-9}


def of_shard(shard):
    return [intrinsics.intrinsics()[name] for name in NAMES[shard::SHARDS]]


def lane_of(it, kind):
    known = {"T": it.t, "U": it.u, "W": it.u, "S": types.signed_like(it.t), "N": types.unsigned_like(it.t)}
    return known.get(kind) or {"uc8": LANES["u8"], "c8": LANES["i8"], "i8": LANES["i8"], "i32": LANES["i32"]}[kind]


def bits_of(mask):
    return np.packbits(mask, bitorder="little").tobytes()


class Call:
    """One intrinsic with its operands."""

    def __init__(self, it, function, seed):
        self.it, self.function = it, function
        self.writer = intrinsics._Writer(it)
        self.generator = np.random.default_rng(seed)
        self.registers = it.form in ("b", "vb")
        family = it.family
        wide = family.types in ("sizes", "level") and it.u
        self.into = family.kind == "into"
        self.lanes = 1 if not self.registers else max(it.t.lanes, it.u.lanes) if wide else it.t.lanes
        if family.result == "W":
            self.lanes = it.u.lanes

    def operand(self, kind, name):
        """(values by lane, bytes) of an argument."""
        it = self.it
        family = it.family.name
        small = "shift" in name or (name == "b" and ("_sh" in family or "_ash" in family))
        if kind in ("=const_int", "=VT", "=char256"):
            return self._whole(kind, small)
        lane = lane_of(it, kind)
        values = calls.random_values(lane, self.lanes, self.generator, small)
        if kind == "c8" and self.registers:
            values = calls.random_values(lane, self.lanes, self.generator, True)
            spread = np.zeros(256, dtype=np.int64)
            spread[:: it.t.bits // 8] = values
            return values, calls.packed(spread, lane)
        if it.family.result == "W":
            every = calls.random_values(lane, lane.lanes, self.generator)
            return every[:: lane.lanes // self.lanes], calls.packed(every, lane)
        if it.family.name.startswith(("mod", "pow", "div")) or it.family.kind == "each":
            values = oracle.to_format((np.abs(values) + 1) / 16, lane)
        return values, calls.dealt(values, lane) if self.registers else calls.packed(values, lane)

    def _whole(self, kind, small):
        it = self.it
        if kind == "=const_int":
            return 1, (1).to_bytes(4, "little")
        if kind == "=char256":
            values = self.generator.integers(0, 6, it.t.lanes)
            spread = np.zeros(256, dtype=np.int64)
            spread[:: it.t.bits // 8] = values
            return values, calls.packed(spread, LANES["i8"])
        values = calls.random_values(it.t, it.t.lanes, self.generator, small)
        return values, calls.packed(values, it.t)

    def run(self, parts, switches, income, predicate, polarity, size):
        family = self.it.family
        buffers = [ctypes.create_string_buffer(part, max(len(part), 1)) for part in parts]
        result = ctypes.create_string_buffer(max(size, 8))
        tail = []
        if family.tail != "-":
            tail = [switches.to_bytes(4, "little"), income, predicate, bytes([polarity])]
        extra = [ctypes.create_string_buffer(part, max(len(part), 1)) for part in tail]
        aligned = [_aligned(buffer) for buffer in [result, *buffers, *extra]]
        pointers = (ctypes.c_void_p * len(aligned))(*(each.ctypes.data for each in aligned))
        self.function(pointers)
        return aligned[0].tobytes()[:size]


def _aligned(buffer):
    """A copy whose address fits a register."""
    raw = np.zeros(len(buffer) + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    place = raw[start : start + len(buffer)]
    place[:] = np.frombuffer(buffer, dtype=np.uint8)
    return place


def results_of(call, data):
    """The values of a result by lane: one array, or two."""
    it, family = call.it, call.it.family
    if family.result == "P":
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")
        return [bits[: call.lanes].astype(bool)] if call.registers else [np.array([bool(data[0])])]
    if "+" in family.result:
        first, second = (lane_of(it, kind) for kind in family.result.split("+"))
        return [calls.unpacked(data[:256], first), calls.unpacked(data[256:512], second)]
    if family.result == "uc8" and call.registers:
        every = calls.unpacked(data, LANES["u8"])
        width = it.t.bits // 8
        assert not any(every[byte::width].any() for byte in range(1, width))
        return [every[::width]]
    lane = it.u if family.kind == "into" else lane_of(it, family.result)
    if not call.registers:
        return [calls.unpacked(data, lane)]
    return [calls.collected(data, lane, lane.lanes if family.kind == "into" else call.lanes)]


def size_of(call):
    it, family = call.it, call.it.family
    if family.result == "P":
        return call.lanes // 8 if call.registers else 1
    if not call.registers:
        return lane_of(it, family.result).bits // 8
    if "+" in family.result:
        return 512
    if family.result == "uc8" or family.kind == "into":
        return 256
    lane = lane_of(it, family.result)
    return 256 * max(1, call.lanes // lane.lanes)


def expected(call, operands, switches):
    it, family = call.it, call.it.family
    case = oracle.Case(it.t, it.u, switches)
    values = [value for (kind, _), value in zip(family.arguments, operands, strict=True) if kind != "=const_int"]
    if family.kind == "each":
        with np.errstate(invalid="ignore", divide="ignore"):
            exact = oracle.special(family.name)(*values)
        return [oracle.to_format(exact, it.t)]
    if family.result == "T+T":
        return list(oracle.halves_of_product(case, *values))
    found = oracle.FAMILIES[family.name].function(case, *values)
    return list(found) if isinstance(found, tuple) else [found]


def agree(call, actual, wanted):
    family = call.it.family
    for got, want in zip(actual, wanted, strict=True):
        loose = family.kind == "each" or family.name.endswith("reduce_add")
        tolerance = TOLERANCE.get(call.it.t.name, 0.0) if loose else 0.0
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=call.it.name)


def spread_into(call, wanted, income, chosen):
    """What a conversion into one of several lanes leaves."""
    step = call.it.u.lanes // call.it.t.lanes
    result = income.copy()
    lanes = np.arange(call.it.t.lanes) * step + 1 % step
    result[lanes] = np.where(chosen, wanted, income[lanes])
    return result


def check(it, function, seed):
    call = Call(it, function, seed)
    family = it.family
    definition = oracle.FAMILIES.get(family.name, oracle.Definition(lambda: np.zeros(1)))
    for switches in definition.switches:
        if it.t.real and family.name in ("{t}_cmp_eq", "{t}_sel_eq_{u}") and switches:
            continue
        pairs = [call.operand(kind, name) for kind, name in family.arguments]
        values, parts = [value for value, _ in pairs], [part for _, part in pairs]
        wanted = expected(call, values, switches)
        size = size_of(call)
        if family.tail == "-":
            agree(call, results_of(call, call.run(parts, 0, b"", b"", 0, size)), wanted)
            continue
        if family.tail == "a":
            income = parts[-1]
        else:
            income = call.generator.integers(0, 100, size, dtype=np.uint8).tobytes()
            if family.result == "P":
                income = call.generator.integers(0, 2 if size == 1 else 256, size, dtype=np.uint8).tobytes()
        kept = (
            results_of(call, income)
            if not (family.result == "uc8" and call.registers)
            else [np.frombuffer(income, np.uint8)]
        )
        for polarity in (0, 1):
            if it.form == "vb":
                lanes = call.writer.predicate_lanes
                predicate = call.generator.integers(0, 2, lanes).astype(bool)
                chosen = predicate != bool(polarity)
                data = call.run(parts, switches, income, bits_of(predicate), polarity, size)
                compare_some(call, data, wanted, kept, chosen)
                continue
            for given in (0, 1):
                data = call.run(parts, switches, income, bytes([given]), polarity, size)
                if given != polarity:
                    compare_some(call, data, wanted, kept, None)
                else:
                    assert data == income, it.name


def compare_some(call, data, wanted, kept, chosen):
    """Lanes that the predicate chooses have the result, others the income."""
    it, family = call.it, call.it.family
    if family.result == "uc8" and call.registers:
        width = it.t.bits // 8
        got = np.frombuffer(data, np.uint8)
        per_lane = np.ones(call.lanes, bool) if chosen is None else chosen
        whole = np.zeros(256, np.uint8)
        whole[::width] = wanted[0]
        np.testing.assert_array_equal(got, np.where(np.repeat(per_lane, width), whole, kept[0]), err_msg=it.name)
        return
    actual = results_of(call, data)
    if family.kind == "into":
        step = it.u.lanes // it.t.lanes
        which = np.ones(it.t.lanes, bool)
        if chosen is not None:
            which = chosen[1 % step :: step] if len(chosen) == it.u.lanes else chosen
        agree(call, actual, [spread_into(call, wanted[0], kept[0], which)])
        return
    merged = [want if chosen is None else np.where(chosen, want, keep) for want, keep in zip(wanted, kept, strict=True)]
    agree(call, actual, merged)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_lane(shard):
    chosen = of_shard(shard)
    functions = calls.built(chosen)
    failed = []
    for number, it in enumerate(chosen):
        try:
            check(it, functions[it.name], number)
        except Exception as error:
            failed.append(f"{it.name}: {str(error).strip().splitlines()[0:9]}")
    assert not failed, f"{len(failed)} of {len(chosen)}:\n" + "\n".join(failed[:25])
